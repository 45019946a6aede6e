// Lab 1, kube-proxy in iptables mode: the checks of the steps of labs/01-iptables/lab.yaml.

import { defineLab } from '../grading/define-lab.ts'
import { expectNodes } from '../grading/expect-node.ts'
import { webService } from '../grading/expect-object.ts'
import * as packetHooks from './01-iptables/packet-hooks.ts'
import * as serviceChains from './01-iptables/service-chains.ts'
import * as traffic from './01-iptables/traffic.ts'
import { backendsOnTwoNodes } from './web-client.ts'

const { inIptablesMode } = serviceChains

export default defineLab(1, ({ step, liveStep, question, observe }) => {
  observe(serviceChains.keepEndpoints)

  question('mode', inIptablesMode(serviceChains.modeAnswer))
  step('web', backendsOnTwoNodes)
  step('probes', packetHooks.probesInFiveHooks)
  step('three-ways', packetHooks.threePathsCounted)
  step('namespaces', packetHooks.probesOnOneNode)
  liveStep('families', packetHooks.familiesAreSeparate)
  question('chain-name', inIptablesMode(serviceChains.nameOfWebChain))
  step('chains', inIptablesMode(serviceChains.chainsLeadToPods))
  step(
    'no-address',
    inIptablesMode(({ nodes, snapshot }) => {
      webService(snapshot)
      expectNodes(nodes).noInterfaceHasClusterIP()
    }),
  )
  step('scale', serviceChains.rulesFollowScaling)
  question('probability', inIptablesMode(serviceChains.probabilityOfSecondRule))
  step('shares', inIptablesMode(traffic.podSharesAreEven))
  step('ports', inIptablesMode(serviceChains.portsCostEntries))
  step('hairpin', inIptablesMode(traffic.podReachesItself))
  step('no-endpoints', inIptablesMode(traffic.rejectsWithoutEndpoints))
  question('rejected', inIptablesMode(traffic.rejectedWith))
  step('whole', inIptablesMode(serviceChains.everythingAsPredicted))
})
