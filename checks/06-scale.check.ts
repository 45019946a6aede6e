// Lab 6, scale: the checks of the steps of labs/06-scale/lab.yaml.

import { defineLab } from '../grading/define-lab.ts'
import { bothModesMeasured, entriesGrow, rulesOfOneService, rulesStay } from './06-scale/run.ts'
import { keptAliveFlat, risingAgainstFlat, shapesOf, turningPoint } from './06-scale/shapes.ts'

export default defineLab(6, ({ step, question }) => {
  step('measured', bothModesMeasured)
  step('entries', entriesGrow)
  question('rules-each', rulesOfOneService)
  step('sets', rulesStay)
  step('change', shapesOf('change', risingAgainstFlat('changeMs')))
  step('lookup', shapesOf('lookup', risingAgainstFlat('newMoreMicros')))
  question('turning-point', turningPoint)
  step('keep-alive', shapesOf('keep-alive', keptAliveFlat))
  step('cpu', shapesOf('cpu', risingAgainstFlat('busyMore')))
})
