import type { Incident } from '../../../course/incident/incident.ts'
import { addressJanitor } from './address-janitor.ts'
import { evictedAgent } from './evicted-agent.ts'
import { foreignProxy } from './foreign-proxy.ts'
import { internalPolicy } from './internal-policy.ts'
import { ipForwardOff } from './ip-forward-off.ts'
import { leftoverVirtualServer } from './leftover-virtual-server.ts'
import { localPolicy } from './local-policy.ts'
import { lostEndpointRule } from './lost-endpoint-rule.ts'
import { markedVirtualServer } from './marked-virtual-server.ts'
import { missingMasquerade } from './missing-masquerade.ts'
import { missingModule } from './missing-module.ts'
import { portOutOfRange } from './port-out-of-range.ts'
import { selectorTypo } from './selector-typo.ts'
import { sessionAffinity } from './session-affinity.ts'
import { sourceRanges } from './source-ranges.ts'
import { staleConnection } from './stale-connection.ts'
import { staleReject } from './stale-reject.ts'
import { unknownScheduler } from './unknown-scheduler.ts'
import { unreadyBackends } from './unready-backends.ts'
import { untracked } from './untracked.ts'
import { weightZero } from './weight-zero.ts'
import { wrongPortName } from './wrong-port-name.ts'
import { wrongTargetPort } from './wrong-target-port.ts'

/** Every incident, those of one mode together. */
export const incidents: readonly Incident[] = [
  ...[wrongTargetPort, selectorTypo, wrongPortName, sessionAffinity, localPolicy, internalPolicy, foreignProxy],
  ...[sourceRanges, portOutOfRange, missingMasquerade, lostEndpointRule, untracked, ipForwardOff, staleConnection],
  ...[unreadyBackends, evictedAgent, leftoverVirtualServer],
  ...[staleReject, markedVirtualServer, weightZero, addressJanitor, unknownScheduler, missingModule],
]
