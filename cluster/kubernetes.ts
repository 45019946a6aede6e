// The used parts of @kubernetes/client-node, so that a bundle contains only these of its 800 modules (scripts/start.mjs).

import { ApiException } from '@kubernetes/client-node'

export {
  ApiException,
  AppsV1Api,
  CoreV1Api,
  CustomObjectsApi,
  createConfiguration,
  DiscoveryV1Api,
  Exec,
  HttpMethod,
  IsomorphicFetchHttpLibrary,
  KubeConfig,
  KubernetesObjectApi,
  PatchStrategy,
  RequestContext,
  ResponseContext,
  ServerConfiguration,
  setHeaderOptions,
  Watch,
  wrapHttpLibrary,
} from '@kubernetes/client-node'

/** The answer to a request; undefined when the API server refuses it with this code: 404 for no such object, 409 for an existing one. */
export async function unlessCode<Answer>(code: 404 | 409, request: Promise<Answer>): Promise<Answer | undefined> {
  try {
    return await request
  } catch (error) {
    if (error instanceof ApiException && error.code === code) return undefined
    throw error
  }
}
