// Lab 3, Services from outside the cluster: the checks of the steps of labs/03-from-outside/lab.yaml.

import { defineLab } from '../grading/define-lab.ts'
import * as serviceChains from './01-iptables/service-chains.ts'
import * as exposedService from './03-from-outside/exposed-service.ts'
import * as shares from './03-from-outside/shares.ts'
import * as trafficPolicy from './03-from-outside/traffic-policy.ts'

export default defineLab(3, ({ step, question }) => {
  step('web', serviceChains.inIptablesMode(exposedService.webHasChains))
  step('node-port', trafficPolicy.nodePortAnswersEverywhere)
  question('node-port-chain', trafficPolicy.nodePortChain)
  step('cluster-policy', trafficPolicy.clientIsLost)
  question('logged-client', trafficPolicy.loggedClient)
  step('load-balancer', exposedService.addressAnswers)
  step('local-policy', trafficPolicy.clientIsKept)
  step('health-check', trafficPolicy.healthPortReports)
  step('uneven', shares.sharesAreUneven)
  question('crowded-share', shares.shareOnFullestNode)
  step('anti-affinity', shares.sharesAreEven)
  step('source-ranges', exposedService.rangesLetIn)
  step('whole', serviceChains.inIptablesMode(serviceChains.everythingAsPredicted))
})
