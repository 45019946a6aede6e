// Lab 1, kube-proxy in iptables mode: the checks of the steps of labs/01-iptables/lab.yaml.

import { defineLab } from '../grading/define-lab.ts'
import { expectNodes } from '../grading/expect-node.ts'
import { webService } from '../grading/expect-object.ts'
import * as asked from './01-iptables/asked.ts'
import * as packetHooks from './01-iptables/packet-hooks.ts'
import * as serviceChains from './01-iptables/service-chains.ts'
import * as traffic from './01-iptables/traffic.ts'
import { incidentAsks, incidentRepaired } from './08-incidents/lab-incident.ts'
import { backendsOnTwoNodes } from './web-client.ts'

const { inIptablesMode } = serviceChains

export default defineLab(1, ({ step, liveStep, question, observe }) => {
  observe(serviceChains.keepEndpoints)

  question('mode', inIptablesMode(serviceChains.modeAnswer))
  step('web', backendsOnTwoNodes)
  step('probes', packetHooks.probesInFiveHooks)
  step('three-ways', packetHooks.threePathsCounted, {
    predict: asked.hooksOfForwarded,
    question: asked.hookOfLeaving,
  })
  step('namespaces', packetHooks.probesOnOneNode, { predict: asked.probesElsewhere })
  liveStep('families', packetHooks.familiesAreSeparate, { predict: asked.hooksOfLoopback })
  question('chain-name', inIptablesMode(serviceChains.nameOfWebChain))
  step('chains', inIptablesMode(serviceChains.chainsLeadToPods), {
    predict: asked.endpointChains,
  })
  step(
    'no-address',
    inIptablesMode(({ nodes, snapshot }) => {
      webService(snapshot)
      expectNodes(nodes).noInterfaceHasClusterIP()
    }),
    { predict: asked.interfaceOfClusterIP },
  )
  step('scale', serviceChains.rulesFollowScaling)
  question('probability', inIptablesMode(serviceChains.probabilityOfSecondRule))
  step('shares', inIptablesMode(traffic.podSharesAreEven))
  step('ports', inIptablesMode(serviceChains.portsCostEntries), {
    predict: asked.entriesOfServices,
  })
  step('hairpin', inIptablesMode(traffic.podReachesItself), { predict: asked.clientOfHairpin })
  step('no-endpoints', inIptablesMode(traffic.rejectsWithoutEndpoints), {
    predict: asked.resultWithoutEndpoints,
  })
  question('rejected', inIptablesMode(traffic.rejectedWith))
  step('whole', inIptablesMode(serviceChains.everythingAsPredicted))
  step('incident', incidentRepaired, incidentAsks)
})
