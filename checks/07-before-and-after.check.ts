// Lab 7, what came before and what comes after: the checks of the steps of labs/07-before-and-after/lab.yaml.

import { defineLab } from '../grading/define-lab.ts'
import * as choice from './07-before-and-after/choice.ts'
import * as connections from './07-before-and-after/connections.ts'
import * as nftables from './07-before-and-after/nftables.ts'
import * as userspace from './07-before-and-after/userspace.ts'

export default defineLab(7, ({ step, liveStep, question }) => {
  step('stage', connections.onlyDeafRefuses)
  liveStep('fails', connections.connectionsFail)
  question('share', connections.shareThatFails)
  step('relay', userspace.rulesLeadToListeners)
  liveStep('retried', userspace.noConnectionFails)
  question('seen-client', userspace.addressThatWebSees)
  step('back', userspace.nothingOfUserspace)
  step('probed', connections.probeKeepsItOut)
  step('nft-tables', nftables.hasSeparateTables)
  step('nft-maps', nftables.mapsLeadToPods)
  step('nft-alone', nftables.nothingBeside)
  step('nft-back', nftables.nothingOfNftables)
  question('choose-retry', choice.modeThatTriesAgain)
  question('choose-list', choice.modeWithList)
  question('choose-scheduler', choice.modeWithScheduler)
  question('choose-here', choice.modeForThousands)
  question('choose-default', choice.modeByDefault)
  question('ipvs-ends', choice.ipvsDeprecation)
})
