// Lab 3, Services from outside the cluster: the checks of the steps of
// labs/03-from-outside/lab.yaml.

import { defineLab } from '../grading/define-lab.ts'
import * as serviceChains from './01-iptables/service-chains.ts'
import * as answers from './03-from-outside/answers.ts'
import * as exposedService from './03-from-outside/exposed-service.ts'
import * as shares from './03-from-outside/shares.ts'
import * as trafficPolicy from './03-from-outside/traffic-policy.ts'
import { incidentAsks, incidentRepaired } from './08-incidents/lab-incident.ts'

export default defineLab(3, ({ step, question }) => {
  step('web', serviceChains.inIptablesMode(exposedService.webHasChains))
  step('node-port', trafficPolicy.nodePortAnswersEverywhere, { predict: answers.answeringNodes })
  question('node-port-chain', trafficPolicy.nodePortChain)
  step('cluster-policy', trafficPolicy.clientIsLost, {
    predict: answers.sourceOnNodeWithPod,
    evidence: answers.requestThroughNodePort,
  })
  question('logged-client', trafficPolicy.loggedClient)
  step('load-balancer', exposedService.addressAnswers, { predict: answers.ownersOfAddress })
  step('local-policy', trafficPolicy.clientIsKept, {
    predict: answers.answeringNodesUnderLocal,
    evidence: answers.requestOfClient,
  })
  step('health-check', trafficPolicy.healthPortReports, {
    predict: answers.healthOfControlPlane,
  })
  step('uneven', shares.sharesAreUneven, { predict: shares.shareOnEmptiestNode })
  question('crowded-share', shares.shareOnFullestNode)
  step('anti-affinity', shares.sharesAreEven)
  step('source-ranges', exposedService.rangesLetIn, {
    predict: answers.nodePortOfRefusedClient,
  })
  step('whole', serviceChains.inIptablesMode(serviceChains.everythingAsPredicted))
  step('incident', incidentRepaired, incidentAsks)
})
