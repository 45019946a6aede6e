import { createHash } from 'node:crypto'
import * as z from 'zod'

const containerStatus = z.object({
  name: z.string().optional(),
  ready: z.boolean().optional(),
  state: z
    .looseObject({
      running: z.object({ startedAt: z.string().optional() }).optional(),
      waiting: z.object({ reason: z.string().optional() }).optional(),
    })
    .optional(),
})

/** The part of an API object that checks read directly; other fields are ignored, and kept. */
const apiObjectSchema = z.object({
  kind: z.string(),
  metadata: z.object({
    name: z.string(),
    namespace: z.string().optional(),
    uid: z.string().optional(),
    labels: z.record(z.string(), z.string()).optional(),
    annotations: z.record(z.string(), z.string()).optional(),
    generation: z.number().optional(),
    creationTimestamp: z.string().nullish(),
    /** When the grace period ends. */
    deletionTimestamp: z.string().nullish(),
    deletionGracePeriodSeconds: z.number().nullish(),
    managedFields: z.array(z.object({ time: z.string().optional() })).nullish(),
  }),
  data: z.record(z.string(), z.string()).optional(),
  spec: z
    .looseObject({
      nodeName: z.string().optional(),
      containers: z
        .array(
          z.object({
            image: z.string().optional(),
            command: z.array(z.string()).optional(),
            args: z.array(z.string()).optional(),
            lifecycle: z.looseObject({ preStop: z.unknown().optional() }).nullish(),
          }),
        )
        .optional(),
    })
    .optional(),
  status: z
    .looseObject({
      phase: z.string().optional(),
      podIP: z.string().optional(),
      conditions: z.array(z.object({ type: z.string(), status: z.string() })).nullish(),
      containerStatuses: z.array(containerStatus).nullish(),
      nodeInfo: z
        .looseObject({
          kubeProxyVersion: z.string().optional(),
          kubeletVersion: z.string().optional(),
        })
        .optional(),
      observedGeneration: z.number().optional(),
      desiredNumberScheduled: z.number().optional(),
      updatedNumberScheduled: z.number().optional(),
    })
    .optional(),
})

export type ApiObject = z.infer<typeof apiObjectSchema>

/** The items of a v1 List that have the form of API objects; others are omitted. */
export const asApiObjects = (items: readonly unknown[]): ApiObject[] => items.filter(isApiObject)

/**
 * The object itself instead of zod's copy: copying unknown fields took longer than everything else.
 */
const isApiObject = (item: unknown): item is ApiObject => apiObjectSchema.safeParse(item).success

/** True when a condition of that type is "True". */
export function hasCondition(object: ApiObject, type: string): boolean {
  return (object.status?.conditions ?? []).some(
    (condition) => condition.type === type && condition.status === 'True',
  )
}

/** The values that an API server assigns to an object at creation and at changes. */
export interface BirthMark {
  kind: string
  namespace: string
  name: string
  uid: string
  /** Milliseconds since the epoch; 0 if unknown. */
  createdAt: number
  resourceVersion: number
}

/** The marks of a list's objects; invalid items have none. */
export function birthMarks(items: readonly unknown[]): BirthMark[] {
  return items.flatMap((item) =>
    isRecord(item) && isRecord(item.metadata) ? markOf(item, item.metadata) : [],
  )
}

function markOf(item: Record<string, unknown>, metadata: Record<string, unknown>): BirthMark {
  const { namespace, name, uid, creationTimestamp, resourceVersion } = metadata
  return {
    kind: text(item.kind),
    namespace: text(namespace),
    name: text(name),
    uid: text(uid),
    createdAt: Date.parse(text(creationTimestamp)) || 0,
    resourceVersion: Number(text(resourceVersion)) || 0,
  }
}

/**
 * The identity of a cluster: a digest of the UIDs of its nodes and its first Service. Empty if the
 * objects have no UID.
 */
export function clusterIdentity(marks: readonly BirthMark[]): string {
  const uids = marks.filter((mark) => mark.uid !== '' && isFounding(mark)).map(({ uid }) => uid)
  if (uids.length === 0) return ''
  return createHash('sha256').update(uids.sort().join('\n')).digest('hex').slice(0, 16)
}

const isFounding = ({ kind, namespace, name }: BirthMark) =>
  kind === 'Node' || (kind === 'Service' && namespace === 'default' && name === 'kubernetes')
const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null

const text = (value: unknown) => (typeof value === 'string' ? value : '')
