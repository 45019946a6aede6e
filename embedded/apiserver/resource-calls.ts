import { type ApiCall, flag } from './api-call.ts'
import { getObject, listObjects } from './list-objects.ts'
import { serveNodeScript, serveNodeSynced } from './node-script.ts'
import { patchObject } from './patch-objects.ts'
import { servePodLog } from './pod-log.ts'
import { badRequest, methodNotAllowed } from './status-error.ts'
import { serveBinding, serveEviction, serveFinalize, serveScale } from './subresources.ts'
import { watchObjects } from './watch-objects.ts'
import { createObject, deleteCollection, deleteObject, replaceObject } from './write-objects.ts'

/** Answers a request for a resource by its method; 405 where a method makes no sense. */
export async function serveResource(call: ApiCall): Promise<void> {
  const { subresource, name } = call
  const { method = 'GET' } = call.request
  if (subresource !== undefined && !['status', 'ephemeralcontainers'].includes(subresource))
    return serveSubresource(call, method)
  if (name !== undefined) return serveOne(call, method)
  switch (method) {
    case 'GET':
      return flag(call.query, 'watch') ? watchObjects(call) : listObjects(call)
    case 'POST':
      if (call.resource.namespaced && call.namespace === undefined) throw methodNotAllowed()
      return createObject(call)
    case 'DELETE':
      return deleteCollection(call)
    default:
      throw methodNotAllowed()
  }
}

async function serveOne(call: ApiCall, method: string): Promise<void> {
  switch (method) {
    case 'GET':
      return flag(call.query, 'watch') ? watchObjects(call) : getObject(call)
    case 'PUT':
      return replaceObject(call)
    case 'PATCH':
      return patchObject(call)
    case 'DELETE':
      if (call.subresource !== undefined) throw methodNotAllowed()
      return deleteObject(call)
    default:
      throw methodNotAllowed()
  }
}

async function serveSubresource(call: ApiCall, method: string): Promise<void> {
  switch (call.subresource) {
    case 'scale':
      return serveScale(call)
    case 'log':
      if (method !== 'GET') throw methodNotAllowed()
      return servePodLog(call)
    case 'script':
      if (method !== 'POST') throw methodNotAllowed()
      return serveNodeScript(call)
    case 'synced':
      if (method !== 'GET') throw methodNotAllowed()
      return serveNodeSynced(call)
    case 'binding':
      if (method !== 'POST') throw methodNotAllowed()
      return serveBinding(call)
    case 'eviction':
      if (method !== 'POST') throw methodNotAllowed()
      return serveEviction(call)
    case 'finalize':
      if (method !== 'PUT') throw methodNotAllowed()
      return serveFinalize(call)
    default:
      throw badRequest(
        `unable to upgrade: the ${call.subresource} subresource needs an upgraded connection (WebSocket)`,
      )
  }
}
