import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ClusterApi } from './cluster-api.ts'
import type { Accepted } from './negotiation.ts'
import type { NodeBackend } from './node-backend.ts'
import { type Resource, resourceNamed } from './resource.ts'
import type { Schema } from './schema.ts'
import type { Served } from './served.ts'

/** One request for a resource, with everything that its handler needs. */
export interface ApiCall {
  api: ClusterApi
  backend: NodeBackend
  schema: Schema
  now: () => Date
  request: IncomingMessage
  response: ServerResponse
  query: URLSearchParams
  accepted: Accepted
  resource: Served
  namespace: string | undefined
  name: string | undefined
  subresource: string | undefined
  /** Ends when the server closes. */
  closing: AbortSignal
}

/** A boolean query parameter: present and not `false` or `0`. */
export function flag(query: URLSearchParams, name: string): boolean {
  const value = query.get(name)
  return value !== null && value !== 'false' && value !== '0'
}

/** A whole number in the query, or undefined. */
export function number(query: URLSearchParams, name: string): number | undefined {
  const value = query.get(name)
  return value !== null && /^\d+$/.test(value) ? Number(value) : undefined
}

/** The resource under which the store keeps the call's objects. */
export function storedResource(call: Pick<ApiCall, 'resource'>): Resource {
  return resourceNamed(call.resource.stored)
}
