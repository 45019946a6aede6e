// Lab 1, kube-proxy in iptables mode: the checks of the steps of labs/01-iptables/lab.yaml.

import { defineLab } from '../grading/define-lab.ts'
import { noInterfaceOwnsClusterIPs, webService } from '../grading/expect-object.ts'
import {
  familiesAreSeparate,
  probesInFiveHooks,
  probesOnOneNode,
  threePathsCounted,
} from './01-iptables/packet-hooks.ts'
import {
  chainsLeadToPods,
  everythingAsPredicted,
  inIptablesMode,
  keepEndpoints,
  modeAnswer,
  nameOfWebChain,
  portsCostEntries,
  probabilityOfSecondRule,
  rulesFollowScaling,
} from './01-iptables/service-chains.ts'
import { podReachesItself, rejectedWith, rejectsWithoutEndpoints, sharesAreEven } from './01-iptables/traffic.ts'
import { backendsOnTwoNodes } from './web-client.ts'

export default defineLab(1, ({ step, question, observe }) => {
  observe(keepEndpoints)

  question('mode', inIptablesMode(modeAnswer))
  step('web', backendsOnTwoNodes)
  step('probes', (context) => {
    probesInFiveHooks(context)
  })
  step('three-ways', threePathsCounted)
  step('namespaces', probesOnOneNode)
  step('families', familiesAreSeparate, { needsCluster: true })
  question('chain-name', inIptablesMode(nameOfWebChain))
  step('chains', inIptablesMode(chainsLeadToPods))
  step(
    'no-address',
    inIptablesMode(({ snapshot }) => {
      webService(snapshot)
      noInterfaceOwnsClusterIPs(snapshot)
    }),
  )
  step('scale', rulesFollowScaling)
  question('probability', inIptablesMode(probabilityOfSecondRule))
  step('shares', inIptablesMode(sharesAreEven))
  step('ports', inIptablesMode(portsCostEntries))
  step('hairpin', inIptablesMode(podReachesItself))
  step('no-endpoints', inIptablesMode(rejectsWithoutEndpoints))
  question('rejected', inIptablesMode(rejectedWith))
  step('whole', inIptablesMode(everythingAsPredicted))
})
