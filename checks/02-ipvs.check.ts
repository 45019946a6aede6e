// Lab 2, kube-proxy in IPVS mode: the checks of the steps of labs/02-ipvs/lab.yaml.

import { defineLab } from '../grading/define-lab.ts'
import { expectNodes } from '../grading/expect-node.ts'
import * as equality from './02-ipvs/equality.ts'
import * as extraServicesCost from './02-ipvs/extra-services-cost.ts'
import * as modeSwitch from './02-ipvs/mode-switch.ts'
import * as requests from './02-ipvs/requests.ts'
import { backendsOnTwoNodes } from './web-client.ts'

export default defineLab(2, ({ step, liveStep, observe }) => {
  observe(modeSwitch.keepKubeProxyPods)
  observe(extraServicesCost.keepCounts)

  step('web', (context) => {
    // The next step compares with counts from now on; they require this mode on every node.
    expectNodes(context.nodes).reportMode()
    return backendsOnTwoNodes(context)
  })
  step('iptables-list', extraServicesCost.extraServicesAddRules)
  step('ipvs', modeSwitch.kubeProxiesRunIpvs)
  step('leftovers', modeSwitch.leftoversCounted)
  step('flush', modeSwitch.nothingLeft)
  step('kube-ipvs0', equality.dummyDeviceOwnsClusterIPs)
  step('tools', equality.toolsWork)
  step('sets', equality.setsEqualServices)
  step('ipvs-constant', extraServicesCost.extraServicesAddMembersOnly)
  step('prerouting', equality.preroutingLeadsToServices)
  step('virtual-servers', equality.virtualServersEqualServices)
  step('node-port', requests.nodePortAnswers)
  step('pod-to-service', requests.requestFromPod)
  step('scheduler', equality.schedulerChosen)
  step('output', requests.requestFromNodeIsMarked)
  step('postrouting', equality.postroutingMasquerades)
  step('masquerade', requests.sourceIsEgressAddress)
  liveStep('conntrack', requests.rulesSeeFirstPacketOnly)
})
