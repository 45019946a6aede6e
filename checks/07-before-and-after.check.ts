// Lab 7, what came before and what comes after: the checks of the steps of labs/07-before-and-after/lab.yaml.

import { defineLab } from '../grading/define-lab.ts'
import {
  ipvsDeprecation,
  modeByDefault,
  modeForThousands,
  modeThatTriesAgain,
  modeWithList,
  modeWithScheduler,
} from './07-before-and-after/choice.ts'
import { connectionsFail, onlyDeafRefuses, probeKeepsItOut, shareThatFails } from './07-before-and-after/connections.ts'
import { hasSeparateTables, mapsLeadToPods, nothingBeside, nothingOfNftables } from './07-before-and-after/nftables.ts'
import {
  addressThatWebSees,
  noConnectionFails,
  nothingOfUserspace,
  rulesLeadToListeners,
} from './07-before-and-after/userspace.ts'

export default defineLab(7, ({ step, question }) => {
  step('stage', onlyDeafRefuses)
  step('fails', connectionsFail, { needsCluster: true })
  question('share', shareThatFails)
  step('relay', rulesLeadToListeners)
  step('retried', noConnectionFails, { needsCluster: true })
  question('seen-client', addressThatWebSees)
  step('back', nothingOfUserspace)
  step('probed', probeKeepsItOut)
  step('nft-tables', hasSeparateTables)
  step('nft-maps', mapsLeadToPods)
  step('nft-alone', nothingBeside)
  step('nft-back', nothingOfNftables)
  question('choose-retry', modeThatTriesAgain)
  question('choose-list', modeWithList)
  question('choose-scheduler', modeWithScheduler)
  question('choose-here', modeForThousands)
  question('choose-default', modeByDefault)
  question('ipvs-ends', ipvsDeprecation)
})
