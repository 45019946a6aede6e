import type { IncomingMessage, ServerResponse } from 'node:http'
import type { NodeBackend, Usage } from './api-call.ts'
import type { ClusterApi } from './cluster-api.ts'
import { readObject, sendObject } from './http-messages.ts'
import { timestamp } from './object-lifecycle.ts'
import { resourceNamed, type Unstored } from './resource.ts'
import type { Schema } from './schema.ts'
import { absentKind, methodNotAllowed, notFound } from './status-error.ts'

interface UnstoredCall {
  api: ClusterApi
  backend: NodeBackend
  schema: Schema
  request: IncomingMessage
  response: ServerResponse
  query: URLSearchParams
  now: () => Date
  resource: Unstored
  namespace?: string
  name?: string
}

/** Answers a request for a kind without stored objects; 404 in one sentence for a kind that this cluster lacks. */
export async function serveUnstored(call: UnstoredCall): Promise<void> {
  const { is, kind } = call.resource
  if (is === 'absent') throw absentKind(kind)
  if (call.request.method !== (is === 'review' ? 'POST' : 'GET')) throw methodNotAllowed()
  return is === 'review' ? serveReview(call) : serveMetrics(call)
}

const everything = { verbs: ['*'], apiGroups: ['*'], resources: ['*'] }
const reviewStatus: Record<string, unknown> = {
  SelfSubjectAccessReview: { allowed: true, reason: 'the one user of this cluster may do everything' },
  SelfSubjectRulesReview: {
    resourceRules: [everything],
    nonResourceRules: [{ verbs: ['*'], nonResourceURLs: ['*'] }],
    incomplete: false,
  },
  SelfSubjectReview: {
    userInfo: { username: 'kubernetes-admin', groups: ['system:masters', 'system:authenticated'] },
  },
}

/** `kubectl auth`: the only user of this cluster may do everything. */
async function serveReview({ request, response, schema, now, resource: { kind } }: UnstoredCall): Promise<void> {
  const body = await readObject(request, schema)
  const metadata = { creationTimestamp: timestamp(now()) }
  sendObject(response, 201, { ...body, kind, metadata, status: reviewStatus[kind] })
}

/** `kubectl top`: the current usage of nodes or Pods, measured over one second. */
async function serveMetrics({ api, backend, response, query, resource, namespace, name, now }: UnstoredCall) {
  const { seconds, nodes, pods } = await backend.usage()
  const quantities = ({ nanocores, kibibytes }: Usage) => ({ cpu: `${nanocores}n`, memory: `${kibibytes}Ki` })
  const { kind, group, version } = resource
  const apiVersion = `${group}/${version}`
  const selected = api
    .list(resource.name, {
      ...(namespace && { namespace }),
      labelSelector: query.get('labelSelector') ?? '',
      fieldSelector: query.get('fieldSelector') ?? '',
    })
    .filter(({ metadata }) => name === undefined || metadata.name === name)
  const items = selected.flatMap(({ metadata: { name, namespace, uid, labels } }) => {
    const measured = resource.name === 'nodes' ? nodes.get(name) : pods.get(uid)
    if (!measured) return []
    const usage =
      'nanocores' in measured
        ? { usage: quantities(measured) }
        : { containers: [...measured].map(([container, used]) => ({ name: container, usage: quantities(used) })) }
    const time = timestamp(now())
    const metadata = { name, ...(namespace && { namespace }), labels, creationTimestamp: time }
    return [{ kind, apiVersion, metadata, timestamp: time, window: `${seconds}s`, ...usage }]
  })
  if (name === undefined) sendObject(response, 200, { kind: `${kind}List`, apiVersion, metadata: {}, items })
  else if (items[0]) sendObject(response, 200, items[0])
  else throw notFound({ ...resourceNamed(resource.name), group }, name)
}
