// Lab 2, kube-proxy in IPVS mode: the checks of the steps of labs/02-ipvs/lab.yaml.

import { defineLab } from '../grading/define-lab.ts'
import { expectNodes } from '../grading/expect-node.ts'
import {
  dummyDeviceOwnsClusterIPs,
  postroutingMasquerades,
  preroutingLeadsToServices,
  schedulerChosen,
  setsEqualServices,
  toolsWork,
  virtualServersEqualServices,
} from './02-ipvs/equality.ts'
import { extraServicesAddMembersOnly, extraServicesAddRules, keepCounts } from './02-ipvs/extra-services-cost.ts'
import { keepKubeProxyPods, kubeProxiesRunIpvs, leftoversCounted, nothingLeft } from './02-ipvs/mode-switch.ts'
import {
  nodePortAnswers,
  requestFromNodeIsMarked,
  requestFromPod,
  rulesSeeFirstPacketOnly,
  sourceIsEgressAddress,
} from './02-ipvs/requests.ts'
import { backendsOnTwoNodes } from './web-client.ts'

export default defineLab(2, ({ step, observe }) => {
  observe(keepKubeProxyPods)
  observe(keepCounts)

  step('web', (context) => {
    // The next step compares with counts from now on; they require this mode on every node.
    expectNodes(context.nodes).reportMode()
    return backendsOnTwoNodes(context)
  })
  step('iptables-list', extraServicesAddRules)
  step('ipvs', kubeProxiesRunIpvs)
  step('leftovers', leftoversCounted)
  step('flush', nothingLeft)
  step('kube-ipvs0', dummyDeviceOwnsClusterIPs)
  step('tools', toolsWork)
  step('sets', setsEqualServices)
  step('ipvs-constant', extraServicesAddMembersOnly)
  step('prerouting', preroutingLeadsToServices)
  step('virtual-servers', virtualServersEqualServices)
  step('node-port', nodePortAnswers)
  step('pod-to-service', requestFromPod)
  step('scheduler', schedulerChosen)
  step('output', requestFromNodeIsMarked)
  step('postrouting', postroutingMasquerades)
  step('masquerade', sourceIsEgressAddress)
  step('conntrack', rulesSeeFirstPacketOnly, { needsCluster: true })
})
