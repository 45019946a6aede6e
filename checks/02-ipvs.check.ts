// Lab 2, kube-proxy in IPVS mode: the checks of the steps of labs/02-ipvs/lab.yaml.

import { defineLab } from '../grading/define-lab.ts'
import { expectNodes } from '../grading/expect-node.ts'
import { ownRequest } from '../grading/own-request.ts'
import * as asked from './02-ipvs/asked.ts'
import * as askedPackets from './02-ipvs/asked-packets.ts'
import * as equality from './02-ipvs/equality.ts'
import * as extraServicesCost from './02-ipvs/extra-services-cost.ts'
import * as modeSwitch from './02-ipvs/mode-switch.ts'
import * as requests from './02-ipvs/requests.ts'
import { incidentAsks, incidentRepaired } from './08-incidents/lab-incident.ts'
import { backendsOnTwoNodes } from './web-client.ts'

export default defineLab(2, ({ step, liveStep, observe }) => {
  observe(modeSwitch.keepKubeProxyPods)
  observe(extraServicesCost.keepCounts)

  step('web', (context) => {
    // The next step compares with counts from now on; they require this mode on every node.
    expectNodes(context.nodes).reportMode()
    return backendsOnTwoNodes(context)
  })
  step('iptables-list', extraServicesCost.extraServicesAddRules, {
    predict: asked.rulesOfExtraServices,
  })
  step('ipvs', modeSwitch.kubeProxiesRunIpvs)
  step('leftovers', modeSwitch.leftoversCounted, { predict: asked.chainsLeft })
  step('flush', modeSwitch.nothingLeft)
  step('kube-ipvs0', equality.dummyDeviceOwnsClusterIPs, { predict: asked.addressesOfDevice })
  step('tools', equality.toolsWork)
  step('sets', equality.setsEqualServices, { predict: asked.membersOfSet })
  step('ipvs-constant', extraServicesCost.extraServicesAddMembersOnly, {
    predict: asked.rulesOfExtraServicesInIpvs,
  })
  step('prerouting', equality.preroutingLeadsToServices, { question: askedPackets.decidingTarget })
  step('virtual-servers', equality.virtualServersEqualServices, {
    predict: asked.realServersOfWeb,
  })
  step('node-port', requests.nodePortAnswers, { predict: asked.serversOfNodePort })
  step('pod-to-service', requests.requestFromPod, {
    predict: askedPackets.hooksOfPod,
    evidence: ownRequest({ from: 'pod' }),
    question: askedPackets.clientOfPod,
  })
  step('scheduler', equality.schedulerChosen)
  step('output', requests.requestFromNodeIsMarked, {
    predict: askedPackets.hooksOfNode,
    evidence: ownRequest({ from: 'node' }),
    question: askedPackets.markOfNode,
  })
  step('postrouting', equality.postroutingMasquerades, { question: askedPackets.hairpinsOnWorker })
  step('masquerade', requests.sourceIsEgressAddress, {
    predict: askedPackets.clientsOfNode,
    evidence: ownRequest({ from: 'node' }),
  })
  liveStep('conntrack', requests.rulesSeeFirstPacketOnly, { predict: askedPackets.packetsOnRule })
  step('incident', incidentRepaired, incidentAsks)
})
