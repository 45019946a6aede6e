// The words that checks are written in: what must be so of objects of the API. Each ends the check with a failure that names the
// kubectl command that shows it, and returns where it holds.

import { type ApiObject, hasCondition } from './api-object.ts'
import { type FailureDetail, fail } from './failure.ts'
import type { Snapshot } from './snapshot.ts'

type Told = Pick<FailureDetail, 'look' | 'expected'> & Partial<FailureDetail>

/** Something that the API has, as a check found it; without it the failure says that there is none. Returns it. */
export function expectFound<T>(found: T | undefined, told: Told): T {
  return found ?? fail({ actual: 'none', ...told })
}

/** A field of an object, `service web-np`, `externalTrafficPolicy`, has a value that is right. */
export function expectField(
  resource: string,
  field: string,
  { holds, actual, ...told }: { holds: boolean } & Pick<FailureDetail, 'expected' | 'actual'> & Partial<FailureDetail>,
): void {
  if (!holds) fail({ look: `kubectl get ${resource} -o yaml | grep -A 2 ${field}`, actual, ...told })
}

/** A Pod that runs, as checks send from it or to it. */
export interface ReadyPod {
  pod: ApiObject
  address: string
  node: string
}

/** The Pod is there, ready, and has an address and a node. Returns them. */
export function expectReadyPod(pod: ApiObject | undefined, name: string, told: Told): ReadyPod {
  const address = pod?.status?.podIP
  const node = pod?.spec?.nodeName
  if (pod && address && node && hasCondition(pod, 'Ready')) return { pod, address, node }
  const actual = pod ? `Pod ${name} is ${pod.status?.phase ?? 'not started'} and not ready` : `no Pod ${name}`
  return fail({ actual, ...told })
}

/** The ready endpoints of a Service are spread over nodes as they must be: `counts` is how many each node has. */
export function expectSpread(
  counts: ReadonlyMap<string, number>,
  isRight: (counts: readonly number[]) => boolean,
  told: Told,
): void {
  if (isRight([...counts.values()])) return
  const actual = [...counts].map(([node, count]) => `${count} on ${node}`).join(', ') || 'no ready Pod'
  fail({ actual, ...told })
}

/** A label selects these Pods of the default namespace that are not being deleted. */
export const podsWithLabel = ({ items }: Snapshot, app: string): ApiObject[] =>
  items.filter(
    ({ kind, metadata }) => kind === 'Pod' && metadata.labels?.app === app && metadata.deletionTimestamp == null,
  )
