import { z } from 'zod'

const containerStatus = z.looseObject({
  name: z.string().default(''),
  ready: z.boolean().default(false),
  state: z
    .looseObject({
      running: z.looseObject({ startedAt: z.string().optional() }).optional(),
      waiting: z.looseObject({ reason: z.string().optional(), message: z.string().optional() }).optional(),
    })
    .default({}),
})

/** The part of an API object that checks read directly; everything else is passed over. */
const apiObjectSchema = z.looseObject({
  kind: z.string(),
  metadata: z.looseObject({
    name: z.string(),
    namespace: z.string().optional(),
    uid: z.string().optional(),
    labels: z.record(z.string(), z.string()).optional(),
    annotations: z.record(z.string(), z.string()).optional(),
    generation: z.number().optional(),
    creationTimestamp: z.string().nullish(),
    deletionTimestamp: z.string().nullish(),
    managedFields: z.array(z.looseObject({ time: z.string().optional() })).nullish(),
  }),
  data: z.record(z.string(), z.string()).optional(),
  spec: z
    .looseObject({
      nodeName: z.string().optional(),
      containers: z
        .array(
          z.looseObject({
            image: z.string().optional(),
            command: z.array(z.string()).optional(),
            args: z.array(z.string()).optional(),
          }),
        )
        .optional(),
    })
    .optional(),
  status: z
    .looseObject({
      phase: z.string().optional(),
      podIP: z.string().optional(),
      conditions: z.array(z.looseObject({ type: z.string(), status: z.string() })).nullish(),
      containerStatuses: z.array(containerStatus).nullish(),
      nodeInfo: z
        .looseObject({ kubeProxyVersion: z.string().optional(), kubeletVersion: z.string().optional() })
        .optional(),
      observedGeneration: z.number().optional(),
      desiredNumberScheduled: z.number().optional(),
      updatedNumberScheduled: z.number().optional(),
      numberUnavailable: z.number().optional(),
    })
    .optional(),
})

export type ApiObject = z.infer<typeof apiObjectSchema>

const known = new WeakMap<object, ApiObject | null>()

/** The items of a v1 List that look like API objects; others are left out. What captures share is read once. */
export function asApiObjects(items: readonly unknown[]): ApiObject[] {
  return items.flatMap((item) => (typeof item === 'object' && item !== null ? (apiObject(item) ?? []) : []))
}

function apiObject(item: object): ApiObject | null {
  const before = known.get(item)
  if (before !== undefined) return before
  const { data = null } = apiObjectSchema.safeParse(item)
  known.set(item, data)
  return data
}

/** True when a condition of that type is "True". */
export function hasCondition(object: ApiObject, type: string): boolean {
  return (object.status?.conditions ?? []).some((condition) => condition.type === type && condition.status === 'True')
}
