// Lab 11, which Pod answers: the checks of the steps of labs/11-which-pod/lab.yaml.

import { defineLab } from '../grading/define-lab.ts'
import { ownRequest } from '../grading/own-request.ts'
import { inIptablesMode } from './01-iptables/service-chains.ts'
import { incidentAsks } from './08-incidents/lab-incident.ts'
import * as answers from './11-which-pod/answers.ts'
import * as distribution from './11-which-pod/distribution.ts'
import { experimentsAreOver } from './11-which-pod/leftovers.ts'
import * as localPolicy from './11-which-pod/local-policy.ts'
import * as lookups from './11-which-pod/lookups.ts'
import * as packetRules from './11-which-pod/packet-rules.ts'
import { podsOnEveryNode } from './11-which-pod/zone-clients.ts'

export default defineLab(11, ({ step }) => {
  step('stage', podsOnEveryNode)
  step('everywhere', distribution.answersComeFromEverywhere, {
    predict: answers.shareOfOtherZone,
    evidence: ownRequest({ from: 'pod' }),
  })
  step('zone', distribution.answersComeFromZone, {
    predict: answers.podsInOwnZone,
    question: answers.shareInFarZone,
  })
  step('fallback', distribution.answersComeFromOtherZone, {
    predict: answers.answerWithEmptyZone,
  })
  step('local', localPolicy.nodeWithoutPodDrops, {
    predict: answers.answerUnderLocal,
    question: localPolicy.targetWithoutPod,
  })
  step('same-node', distribution.answersComeFromNode, {
    predict: answers.hintsOfSameNode,
    question: answers.answerWithoutOwnPod,
  })
  step('dns', lookups.lookupsAreCounted, {
    predict: lookups.packetsOfLookup,
    evidence: lookups.ownLookup,
    question: lookups.sourceOfLookup,
  })
  step('places', packetRules.placesAreCounted, {
    predict: packetRules.placesThatCount,
    evidence: packetRules.ownCountedRequest,
  })
  step('whole', inIptablesMode(experimentsAreOver))
  step('incident', localPolicy.policyIncidentRepaired, incidentAsks)
})
