// Assertions about API objects, for checks. Each throws a failure with the kubectl command to inspect it, or returns if it
// holds.

import { type ApiObject, hasCondition } from './api-object.ts'
import { expectThat, type FailureDetail } from './failure.ts'
import type { Snapshot } from './snapshot.ts'

type FailureTexts = Pick<FailureDetail, 'inspect' | 'expected'> & Partial<FailureDetail>

/** Expects that an object of the API was found. Returns it. */
export function expectFound<T>(found: T | undefined, details: FailureTexts): T {
  expectThat(found !== undefined, { actual: 'none', ...details })
  return found
}

/** A field of an object, `service web-np`, `externalTrafficPolicy`, has an expected value. */
export function expectField(
  resource: string,
  field: string,
  {
    holds,
    actual,
    ...details
  }: { holds: boolean } & Pick<FailureDetail, 'expected' | 'actual'> & Partial<FailureDetail>,
): void {
  expectThat(holds, { inspect: `kubectl get ${resource} -o yaml | grep -A 2 ${field}`, actual, ...details })
}

/** A running Pod that checks send requests from or to. */
export interface ReadyPod {
  pod: ApiObject
  address: string
  node: string
}

/** The Pod exists, is ready, and has an address and a node. Returns them. */
export function expectReadyPod(pod: ApiObject | undefined, name: string, details: FailureTexts): ReadyPod {
  const address = pod?.status?.podIP
  const node = pod?.spec?.nodeName
  const actual = pod ? `the Pod is ${pod.status?.phase ?? 'not started'} and not ready` : `no Pod ${name}`
  expectThat(pod && address && node && hasCondition(pod, 'Ready'), { actual, ...details })
  return { pod, address, node }
}

/** The ready endpoints of a Service are distributed over nodes as expected: `counts` has the number for each node. */
export function expectSpread(
  counts: ReadonlyMap<string, number>,
  isRight: (counts: readonly number[]) => boolean,
  details: FailureTexts,
): void {
  const actual = [...counts].map(([node, count]) => `${count} on ${node}`).join(', ') || 'no ready Pod'
  expectThat(isRight([...counts.values()]), { actual, ...details })
}

/** The Pods of the default namespace with this app label, without terminating ones. */
export const podsWithLabel = ({ items }: Snapshot, app: string): ApiObject[] =>
  items.filter(
    ({ kind, metadata }) => kind === 'Pod' && metadata.labels?.app === app && metadata.deletionTimestamp == null,
  )
