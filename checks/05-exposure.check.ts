// Lab 5, what IPVS exposes: the checks of the steps of labs/05-exposure/lab.yaml.

import { defineLab } from '../grading/define-lab.ts'
import { accessFilterRejects, gainedAddresses, rejectedSet } from './05-exposure/access-filter.ts'
import {
  boundAgentIsClosed,
  clusterIPsLeadNowhere,
  everyClusterIPLeadsToAgent,
  nothingIsLeft,
  ownFilterCloses,
} from './05-exposure/cluster-ips.ts'
import {
  chainBeforeIpvs,
  forwardRuleNotTraversed,
  forwardRuleStops,
  stoppedInEitherMode,
} from './05-exposure/forward-rule.ts'
import { agentAnswers } from './05-exposure/node-agent.ts'

export default defineLab(5, ({ step, question }) => {
  step('stage', agentAnswers)
  step('closed', clusterIPsLeadNowhere)
  step('forward-rule', forwardRuleStops)
  step('exposed', everyClusterIPLeadsToAgent)
  question('gained-addresses', gainedAddresses)
  step('not-asked', forwardRuleNotTraversed)
  question('filter-chain', chainBeforeIpvs)
  step('either-mode', stoppedInEitherMode)
  step('own-filter', ownFilterCloses)
  step('bound', boundAgentIsClosed, { needsCluster: true })
  step('access-filter', accessFilterRejects)
  question('rejecting-set', rejectedSet)
  step('whole', nothingIsLeft)
})
