// Lab 8, incidents: the checks of the steps of labs/08-incidents/lab.yaml, for every incident.

import { DIAGNOSIS } from '../course/incident/incident-note.ts'
import { INCIDENT_LAB } from '../course/incident/shop.ts'
import { defineLab } from '../grading/define-lab.ts'
import { causeByName, costOfDiagnosis } from './08-incidents/diagnosis.ts'
import { causeIsFixed, nodesAreRight, restIsAsBefore, symptomIsGone } from './08-incidents/repair.ts'

export default defineLab(INCIDENT_LAB, ({ step, question }) => {
  question(DIAGNOSIS, causeByName, costOfDiagnosis)
  step('report', symptomIsGone, { needsCluster: true })
  step('cause', causeIsFixed)
  step('rules', nodesAreRight)
  step('whole', restIsAsBefore)
})
