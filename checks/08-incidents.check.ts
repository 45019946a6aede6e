// Lab 8, incidents: what proves each step of labs/08-incidents/lab.yaml, whatever the incident.

import { causeByName, DIAGNOSIS } from './08-incidents/diagnosis.ts'
import { causeIsMended, nodesAreRight, reportIsSettled, restIsAsBefore } from './08-incidents/repair.ts'
import { INCIDENT_LAB } from './08-incidents/stage.ts'
import { defineLab } from './kit.ts'

export default defineLab(INCIDENT_LAB, ({ step, question }) => {
  question(DIAGNOSIS, causeByName)
  step('report', reportIsSettled, { needsCluster: true })
  step('cause', causeIsMended)
  step('rules', nodesAreRight)
  step('whole', restIsAsBefore)
})
