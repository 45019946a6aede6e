// Lab 6, scale: the checks of the steps of labs/06-scale/lab.yaml.

import { defineLab } from '../grading/define-lab.ts'
import * as nftables from './06-scale/nftables.ts'
import * as ownSync from './06-scale/own-sync.ts'
import * as predictions from './06-scale/predictions.ts'
import * as run from './06-scale/run.ts'
import * as shapes from './06-scale/shapes.ts'

export default defineLab(6, ({ step, question }) => {
  step('measured', run.bothModesMeasured, { predict: predictions.curvesThatRise })
  step('entries', run.entriesGrow, { predict: predictions.lengthOfList })
  step('sets', run.rulesStay, { predict: predictions.growsInIpvs })
  question('rules-each', run.rulesOfOneService)
  step('change', shapes.shapesOf('change', shapes.risingAgainstFlat('changeMs')), {
    predict: predictions.growthOfChange,
  })
  step('own-sync', ownSync.ranInIptablesMode, {
    predict: ownSync.timeOfSync,
    question: ownSync.rulesByOwnCount,
  })
  step('lookup', shapes.shapesOf('lookup', shapes.risingAgainstFlat('newMoreMicros')), {
    predict: predictions.costOfEntry,
  })
  question('turning-point', shapes.turningPoint)
  step('keep-alive', shapes.shapesOf('keep-alive', shapes.keptAliveFlat))
  step('cpu', shapes.shapesOf('cpu', shapes.risingAgainstFlat('busyMore')))
  step('nftables', nftables.lookedUpInMap, {
    predict: nftables.growsInNftables,
    question: nftables.rulesOfNftablesService,
  })
})
