// Lab 5, what IPVS exposes: the checks of the steps of labs/05-exposure/lab.yaml.

import { defineLab } from '../grading/define-lab.ts'
import * as accessFilter from './05-exposure/access-filter.ts'
import * as clusterIps from './05-exposure/cluster-ips.ts'
import * as forwardRule from './05-exposure/forward-rule.ts'
import { agentAnswers } from './05-exposure/node-agent.ts'

export default defineLab(5, ({ step, liveStep, question }) => {
  step('stage', agentAnswers)
  step('closed', clusterIps.clusterIPsLeadNowhere)
  step('forward-rule', forwardRule.forwardRuleStops)
  step('exposed', clusterIps.everyClusterIPLeadsToAgent)
  question('gained-addresses', accessFilter.gainedAddresses)
  step('not-asked', forwardRule.forwardRuleNotTraversed)
  question('filter-chain', forwardRule.chainBeforeIpvs)
  step('either-mode', forwardRule.stoppedInEitherMode)
  step('own-filter', clusterIps.ownFilterCloses)
  liveStep('bound', clusterIps.boundAgentIsClosed)
  step('access-filter', accessFilter.accessFilterRejects)
  question('rejecting-set', accessFilter.rejectedSet)
  step('whole', clusterIps.nothingIsLeft)
})
