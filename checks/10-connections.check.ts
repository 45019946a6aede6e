// Lab 10, the life of a connection: the checks of the steps of labs/10-connections/lab.yaml.

import { defineLab } from '../grading/define-lab.ts'
import { incidentAsks, incidentRepaired } from './08-incidents/lab-incident.ts'
import * as affinity from './10-connections/affinity.ts'
import * as fullTable from './10-connections/full-table.ts'
import * as invalidPackets from './10-connections/invalid-packets.ts'
import * as localPolicy from './10-connections/local-policy.ts'
import * as pinned from './10-connections/pinned.ts'
import * as realServers from './10-connections/real-servers.ts'
import * as rollouts from './10-connections/rollouts.ts'
import * as terminating from './10-connections/terminating.ts'
import * as udpFlow from './10-connections/udp-flow.ts'

export default defineLab(10, ({ step }) => {
  step('shop', rollouts.shopIsCalled)
  step('naive', rollouts.shopIsCareless, {
    predict: rollouts.podsThatLose,
    evidence: rollouts.rolloutLosesRequests,
  })
  step('pinned', pinned.rulesLeadToSeveral, {
    predict: pinned.podsOfOneConnection,
    evidence: pinned.pinnedRequests,
    question: pinned.sourceOfReplies,
  })
  step('terminating', terminating.rulesLeaveItOut, {
    predict: terminating.conditionsOfLeaving,
    evidence: terminating.keptConnectionGoesOn,
    question: terminating.whatReachesLeaving,
  })
  step('local', localPolicy.nodeEmpties, {
    predict: localPolicy.healthOfNode,
    evidence: localPolicy.answeredThrough,
    question: localPolicy.whoseConnections,
  })
  step('last', terminating.rulesUseLeaving, {
    predict: terminating.answerOfLast,
    evidence: terminating.answeredByLast,
  })
  step('careful', rollouts.shopIsCareful, { predict: rollouts.enoughAlone })
  step('lossless', rollouts.rolledOutAndDrained, {
    predict: rollouts.firstAtEviction,
    evidence: rollouts.rolloutLosesNothing,
  })
  step('affinity', affinity.rulesRemember, {
    predict: affinity.podsOfSeries,
    evidence: affinity.stickyRequests,
    question: affinity.timeoutCountsFrom,
  })
  step('udp', udpFlow.quotesAreRead, {
    predict: udpFlow.answerAfterReplacement,
    evidence: udpFlow.flowMovedOn,
    question: udpFlow.whatKubeProxyDeletes,
  })
  step('weight', realServers.weightIsZero, {
    predict: realServers.fateOfRealServer,
    evidence: realServers.templateDecided,
    question: realServers.whoAnsweredLoyal,
  })
  step('invalid', invalidPackets.rulesDropInvalid, {
    predict: invalidPackets.answerToInvalid,
    evidence: invalidPackets.packetsOutOfWindow,
    question: invalidPackets.whereItWasDropped,
  })
  step('full', fullTable.tableHasRoom, {
    predict: fullTable.newConnectionAtFull,
    evidence: fullTable.newConnectionsWaited,
    question: fullTable.answeredAtFull,
  })
  step('incident', incidentRepaired, incidentAsks)
})
