// Lab 3, Services from outside the cluster: the checks of the steps of labs/03-from-outside/lab.yaml.

import { defineLab } from '../grading/define-lab.ts'
import { everythingAsPredicted, inIptablesMode } from './01-iptables/service-chains.ts'
import { addressAnswers, rangesLetIn, webHasChains } from './03-from-outside/exposed-service.ts'
import { shareOnFullestNode, sharesAreEven, sharesAreUneven } from './03-from-outside/shares.ts'
import {
  clientIsKept,
  clientIsLost,
  healthPortReports,
  loggedClient,
  nodePortAnswersEverywhere,
  nodePortChain,
} from './03-from-outside/traffic-policy.ts'

export default defineLab(3, ({ step, question }) => {
  step('web', inIptablesMode(webHasChains))
  step('node-port', nodePortAnswersEverywhere)
  question('node-port-chain', nodePortChain)
  step('cluster-policy', clientIsLost)
  question('logged-client', loggedClient)
  step('load-balancer', addressAnswers)
  step('local-policy', clientIsKept)
  step('health-check', healthPortReports)
  step('uneven', sharesAreUneven)
  question('crowded-share', shareOnFullestNode)
  step('anti-affinity', sharesAreEven)
  step('source-ranges', rangesLetIn)
  step('whole', inIptablesMode(everythingAsPredicted))
})
