// Lab 5, what IPVS exposes: the checks of the steps of labs/05-exposure/lab.yaml.

import { defineLab } from '../grading/define-lab.ts'
import { ownRequest } from '../grading/own-request.ts'
import * as accessFilter from './05-exposure/access-filter.ts'
import * as answers from './05-exposure/answers.ts'
import * as clusterIps from './05-exposure/cluster-ips.ts'
import * as forwardRule from './05-exposure/forward-rule.ts'
import { agentAnswers } from './05-exposure/node-agent.ts'
import { incidentAsks, incidentRepaired } from './08-incidents/lab-incident.ts'

export default defineLab(5, ({ step, liveStep, question }) => {
  step('stage', agentAnswers)
  step('closed', clusterIps.clusterIPsLeadNowhere, { predict: answers.agentInIptablesMode })
  step('forward-rule', forwardRule.forwardRuleStops, { predict: answers.destinationInForward })
  step('exposed', clusterIps.everyClusterIPLeadsToAgent, {
    predict: answers.agentBehindApiAddress,
  })
  question('gained-addresses', accessFilter.gainedAddresses)
  step('not-asked', forwardRule.forwardRuleNotTraversed, {
    predict: answers.countInForward,
    evidence: ownRequest({ from: 'pod' }),
  })
  question('filter-chain', forwardRule.chainBeforeIpvs)
  step('either-mode', forwardRule.stoppedInEitherMode)
  step('own-filter', clusterIps.ownFilterCloses, {
    predict: answers.answeredWithBroadRule,
    evidence: ownRequest({ from: 'node' }),
    question: answers.destinationOfReply,
  })
  liveStep('bound', clusterIps.boundAgentIsClosed, { predict: answers.whoRefuses })
  step('access-filter', accessFilter.accessFilterRejects)
  question('rejecting-set', accessFilter.rejectedSet)
  step('whole', clusterIps.nothingIsLeft)
  step('incident', incidentRepaired, incidentAsks)
})
