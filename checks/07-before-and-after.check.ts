// Lab 7, what came before and what comes after: the checks of the steps of
// labs/07-before-and-after/lab.yaml.

import { defineLab } from '../grading/define-lab.ts'
import { ownRequest } from '../grading/own-request.ts'
import * as choice from './07-before-and-after/choice.ts'
import * as connections from './07-before-and-after/connections.ts'
import * as nftables from './07-before-and-after/nftables.ts'
import * as userspace from './07-before-and-after/userspace.ts'

export default defineLab(7, ({ step, liveStep, question }) => {
  step('stage', connections.onlyDeafRefuses, { predict: connections.readyWithDeaf })
  liveStep('fails', connections.connectionsFail, {
    predict: connections.whatTheClientSees,
    evidence: ownRequest({ from: 'pod' }),
  })
  question('share', connections.shareThatFails)
  step('relay', userspace.rulesLeadToListeners, {
    predict: userspace.whereTheRuleLeads,
    question: userspace.portOnTheNode,
  })
  liveStep('retried', userspace.noConnectionFails, {
    predict: userspace.failuresWithRetry,
    // In userspace mode the Pods log an address of the client's node.
    evidence: ownRequest({ from: 'node' }),
  })
  question('seen-client', userspace.addressThatWebSees)
  step('back', userspace.nothingOfUserspace, { predict: userspace.rulesThatStay })
  step('probed', connections.probeKeepsItOut, {
    predict: connections.deafInSlice,
    evidence: ownRequest({ from: 'pod', word: 'probed' }),
  })
  step('nft-tables', nftables.hasSeparateTables, { predict: nftables.tablesOnNode })
  step('nft-maps', nftables.mapsLeadToPods, {
    question: nftables.elementsOfMap,
    evidence: ownRequest({ from: 'pod', word: 'nft' }),
  })
  step('nft-alone', nftables.nothingBeside)
  step('nft-back', nftables.nothingOfNftables)
  question('choose-retry', choice.failuresByMode)
  question('choose-list', choice.comparedInVain)
  question('choose-scheduler', choice.schedulerByLoad)
  question('choose-here', choice.modeForThousands)
  question('choose-default', choice.modeByDefault)
  question('ipvs-ends', choice.versionsUntilGone)
})
