// The step `incident` at the end of another lab: one incident that needs no more than what the lab
// has taught.

import { loadIncidents, type PacketFate } from '../../course/incident/incident.ts'
import { CLOSED_KEY } from '../../course/incident/incident-note.ts'
import {
  type Check,
  type CheckContext,
  onceSeen,
  type StepQuestions,
  type Truth,
} from '../../grading/check-context.ts'
import { expectOpenIncident, showCommand } from './diagnosis.ts'
import { incidentIsOver } from './repair.ts'

/**
 * The incident is repaired: symptom and cause are gone, and nothing else has changed. Once seen, it
 * stays repaired.
 */
export const incidentRepaired = repairedIncident(false)
/** The same on nodes where the learner has virtual servers beside kube-proxy's. */
export const incidentRepairedBesideLvs = repairedIncident(true)

function repairedIncident(ownServers: boolean): Check {
  return onceSeen(CLOSED_KEY, async (context: CheckContext) => {
    await incidentIsOver(context, ownServers)
    return { at: new Date().toISOString() }
  })
}

/**
 * Where a packet stops: what happens there, and what it would show to a learner who names it in
 * vain.
 */
const ENDS: Record<PacketFate, { is: string; sign: string }> = {
  rejected: {
    is: 'A rule rejects it, so the client is refused at once.',
    sign: 'If a rule rejected the packet, the client would be refused at once, and the counter of a REJECT rule would grow.',
  },
  dropped: {
    is: 'A rule drops it, so the client waits until its timeout.',
    sign: 'If a rule dropped the packet, the client would wait until its timeout, and the counter of a DROP rule would grow.',
  },
  untranslated: {
    is: 'Nothing translates it, and it leaves the node for an address that no machine has.',
    sign: 'If nothing translated the packet, tcpdump on eth0 of the node would show it with the ClusterIP as its destination.',
  },
  ipvs: {
    is: 'IPVS takes it, and has no real server for it.',
    sign: 'If IPVS had no real server for the packet, `ipvsadm -Ln` would list a virtual server with none, or only with some of weight 0.',
  },
  node: {
    is: 'Nothing translates it, and it is for an address of the node, which refuses it.',
    sign: 'If the node refused the packet, the client would be refused at once, and the counter of no rule would grow.',
  },
  pod: {
    is: 'It reaches a Pod.',
    sign: 'If the packet reached a Pod, the Pod would log the request, or its kernel would refuse a port on which nothing listens.',
  },
  reply: {
    is: 'It reaches a Pod, and the reply does not come back to the client.',
    sign: 'If only the reply were lost, the Pod would have sent one: `tcpdump` in the network of its node would show a SYN with an ACK.',
  },
}

/** What it asks: the end of the packet in the report, and the cause. */
export const incidentAsks: StepQuestions = {
  async predict(context): Promise<Truth> {
    const { incident } = await expectOpenIncident(context)
    const { stops = 'pod' } = incident
    const others = Object.entries(ENDS).filter(([end]) => end !== stops)
    return {
      accepts: [stops],
      inspect: showCommand(context.notes),
      wrong: others.map(([when, { sign }]) => ({ when, because: sign })),
      because: ENDS[stops].is,
    }
  },
  async question(context): Promise<Truth> {
    const { incident, note } = await expectOpenIncident(context)
    const others = (await loadIncidents()).filter(
      ({ id }) => id !== incident.id && note.choices.includes(id),
    )
    return {
      accepts: [incident.id],
      inspect: showCommand(context.notes),
      wrong: others.map(({ id, sign }) => ({ when: id, because: sign })),
      because: incident.debrief.replaceAll('\n', ' '),
    }
  },
}
