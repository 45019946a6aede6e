// Lab 8, incidents: the checks of the steps of labs/08-incidents/lab.yaml, for every incident.

import { DIAGNOSIS } from '../course/incident/incident-note.ts'
import { INCIDENT_LAB } from '../course/incident/shop.ts'
import { defineLab } from '../grading/define-lab.ts'
import * as diagnosis from './08-incidents/diagnosis.ts'
import * as repair from './08-incidents/repair.ts'

export default defineLab(INCIDENT_LAB, ({ step, liveStep, question }) => {
  question(DIAGNOSIS, diagnosis.causeByName, diagnosis.costOfDiagnosis)
  liveStep('report', repair.symptomIsGone)
  step('cause', repair.causeIsFixed)
  step('rules', repair.nodesAreRight)
  step('whole', repair.restIsAsBefore)
})
