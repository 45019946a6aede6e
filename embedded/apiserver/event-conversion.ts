import type { JsonObject } from './json.ts'

// Events are kept as core/v1; events.k8s.io/v1 is another view of the same objects. The pairs name a field in both.
const names: readonly [core: string, events: string][] = [
  ['involvedObject', 'regarding'],
  ['message', 'note'],
  ['reportingComponent', 'reportingController'],
  ['count', 'deprecatedCount'],
  ['firstTimestamp', 'deprecatedFirstTimestamp'],
  ['lastTimestamp', 'deprecatedLastTimestamp'],
  ['source', 'deprecatedSource'],
]

/** A core/v1 Event as events.k8s.io/v1. */
export function toEventsV1(event: JsonObject): JsonObject {
  return { ...renamed(event, new Map(names)), apiVersion: 'events.k8s.io/v1' }
}

/** An events.k8s.io/v1 Event as core/v1. */
export function toCoreV1(event: JsonObject): JsonObject {
  return { ...renamed(event, new Map(names.map(([core, other]) => [other, core]))), apiVersion: 'v1' }
}

function renamed(event: JsonObject, to: ReadonlyMap<string, string>): JsonObject {
  return Object.fromEntries(Object.entries(event).map(([key, value]) => [to.get(key) ?? key, value]))
}
