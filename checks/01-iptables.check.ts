// Lab 1, kube-proxy in iptables mode: the checks of the steps of labs/01-iptables/lab.yaml.

import { defineLab } from '../grading/define-lab.ts'
import { noInterfaceOwnsClusterIPs, webService } from '../grading/web-service.ts'
import { everythingAsPredicted, modeAnswer, mustRunIptables } from './01-iptables/iptables-mode.ts'
import {
  familiesAreSeparate,
  probesInFiveHooks,
  probesOnOneNode,
  threePathsCounted,
} from './01-iptables/packet-hooks.ts'
import { podReachesItself, rejectedWith, rejectsWithoutEndpoints, sharesAreEven } from './01-iptables/traffic.ts'
import {
  chainsLeadToPods,
  keepEndpoints,
  nameOfWebChain,
  portsCostEntries,
  probabilityOfSecondRule,
  rulesFollowScaling,
} from './01-iptables/web-chains.ts'
import { backendsOnTwoNodes } from './02-ipvs/web-requests.ts'

export default defineLab(1, ({ step, question, observe }) => {
  observe(keepEndpoints)

  question('mode', modeAnswer)
  step('web', backendsOnTwoNodes)
  step('probes', (context) => {
    probesInFiveHooks(context)
  })
  step('three-ways', threePathsCounted)
  step('namespaces', probesOnOneNode)
  step('families', familiesAreSeparate, { needsCluster: true })
  question('chain-name', nameOfWebChain)
  step('chains', chainsLeadToPods)
  step('no-address', ({ nodes, snapshot }) => {
    mustRunIptables(nodes)
    webService(snapshot)
    noInterfaceOwnsClusterIPs(snapshot)
  })
  step('scale', rulesFollowScaling)
  question('probability', probabilityOfSecondRule)
  step('shares', sharesAreEven)
  step('ports', portsCostEntries)
  step('hairpin', podReachesItself)
  step('no-endpoints', rejectsWithoutEndpoints)
  question('rejected', rejectedWith)
  step('whole', everythingAsPredicted)
})
