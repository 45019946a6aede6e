import type { Incident } from '../../../course/incident/incident.ts'
import { selectorTypo, unreadyBackends, wrongPortName, wrongTargetPort } from './endpoints.ts'
import { forgottenCanary } from './forgotten-canary.ts'
import { hollowProbe } from './hollow-probe.ts'
import { evictedAgent, foreignProxy, missingModule } from './kube-proxy.ts'
import {
  ipForwardOff,
  lostEndpointRule,
  missingMasquerade,
  staleReject,
  untracked,
} from './node-rules.ts'
import { ownFirewall } from './own-firewall.ts'
import { portOutOfRange } from './port-out-of-range.ts'
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

/** Every incident, grouped by mode. */
export const incidents: readonly Incident[] = [
  wrongTargetPort,
  selectorTypo,
  wrongPortName,
  sessionAffinity,
  localPolicy,
  internalPolicy,
  closeEndpoints,
  foreignProxy,
  sourceRanges,
  portOutOfRange,
  missingMasquerade,
  lostEndpointRule,
  untracked,
  ipForwardOff,
  staleConnection,
  unreadyBackends,
  hollowProbe,
  evictedAgent,
  leftoverVirtualServer,
  forgottenCanary,
  staleReject,
  markedVirtualServer,
  weightZero,
  addressJanitor,
  unknownScheduler,
  missingModule,
  ownFirewall,
]
