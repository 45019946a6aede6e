import type { LabIncidents } from '../../../course/incident/incident.ts'
import { selectorTypo, unreadyBackends, wrongPortName, wrongTargetPort } from './endpoints.ts'
import { forgottenCanary } from './forgotten-canary.ts'
import { hollowProbe } from './hollow-probe.ts'
import { evictedAgent } from './kube-proxy.ts'
import { lostEndpointRule, missingMasquerade, staleReject, untracked } from './node-rules.ts'
import { ownFirewall } from './own-firewall.ts'
import { staleConnection } from './stale-connection.ts'
import {
  closeEndpoints,
  internalPolicy,
  localPolicy,
  sessionAffinity,
  sourceRanges,
} from './traffic-policies.ts'
import {
  addressJanitor,
  leftoverVirtualServer,
  markedVirtualServer,
  unknownScheduler,
  weightZero,
} from './virtual-servers.ts'

/**
 * The incidents at the end of labs, which need no more than what the lab has taught. The choices of
 * the step `incident` in each lab.yaml are the ids of `choices`.
 */
export const incidentsByLab: ReadonlyMap<number, LabIncidents> = new Map([
  [
    1,
    {
      draws: [selectorTypo, wrongTargetPort, lostEndpointRule],
      choices: [selectorTypo, wrongPortName, wrongTargetPort, lostEndpointRule],
    },
  ],
  [
    2,
    {
      draws: [weightZero, addressJanitor, markedVirtualServer],
      choices: [weightZero, addressJanitor, markedVirtualServer, wrongTargetPort],
    },
  ],
  [
    3,
    {
      draws: [localPolicy, internalPolicy, missingMasquerade],
      choices: [localPolicy, internalPolicy, missingMasquerade, sourceRanges],
    },
  ],
  [
    4,
    {
      draws: [weightZero, markedVirtualServer],
      choices: [weightZero, markedVirtualServer, unknownScheduler, unreadyBackends],
    },
  ],
  [
    5,
    {
      draws: [ownFirewall, addressJanitor],
      choices: [ownFirewall, addressJanitor, untracked, weightZero],
    },
  ],
  [
    9,
    {
      draws: [forgottenCanary, leftoverVirtualServer],
      choices: [forgottenCanary, leftoverVirtualServer, evictedAgent, staleReject],
    },
  ],
  [
    10,
    {
      draws: [hollowProbe, unreadyBackends],
      choices: [hollowProbe, unreadyBackends, sessionAffinity, staleConnection],
    },
  ],
  [
    11,
    {
      draws: [closeEndpoints, internalPolicy],
      choices: [closeEndpoints, internalPolicy, sessionAffinity, lostEndpointRule],
    },
  ],
])
