// Lab 1, kube-proxy in iptables mode: what proves each step of labs/01-iptables/lab.yaml.

import { noInterfaceOwnsClusterIPs } from '../grading/cluster-ip-addresses.ts'
import { defineLab } from '../grading/define-lab.ts'
import { webService } from '../grading/web-service.ts'
import { familiesAreApart } from './01-iptables/families.ts'
import { podReachesItself } from './01-iptables/hairpin.ts'
import { everythingAsPredicted, modeInForce, mustRunIptables } from './01-iptables/iptables-mode.ts'
import { probesInFiveHooks, probesOnOneNode } from './01-iptables/probes.ts'
import { nobodyRefuses, rejectedWith } from './01-iptables/rejection.ts'
import { portsCostEntries } from './01-iptables/service-ports.ts'
import { sharesAreEven } from './01-iptables/shares.ts'
import { threeWaysCounted } from './01-iptables/three-ways.ts'
import {
  chainsLeadToPods,
  keepEndpoints,
  nameOfWebChain,
  probabilityOfSecondRule,
  rulesFollowScaling,
} from './01-iptables/web-chains.ts'
import { backendsOnTwoNodes } from './02-ipvs/web-requests.ts'

export default defineLab(1, ({ step, question, observe }) => {
  observe(keepEndpoints)

  question('mode', modeInForce)
  step('web', backendsOnTwoNodes)
  step('probes', (context) => {
    probesInFiveHooks(context)
  })
  step('three-ways', threeWaysCounted)
  step('namespaces', probesOnOneNode)
  step('families', familiesAreApart, { needsCluster: true })
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
  step('no-endpoints', nobodyRefuses)
  question('rejected', rejectedWith)
  step('whole', everythingAsPredicted)
})
