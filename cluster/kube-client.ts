import { existsSync } from 'node:fs'
import type { KubernetesObject } from '@kubernetes/client-node'
import { type Cluster, type KubeClient, notUp } from './driver.ts'

export type { KubeClient }

/** The properties of a cluster that a client needs. */
type ReachedCluster = Pick<Cluster, 'capabilities' | 'name' | 'kubeconfig' | 'unexpectedEnd'>

/** Clients for a cluster. Throws in one sentence if it is not up. */
export const kubeClient = (cluster: Pick<Cluster, 'client'>): Promise<KubeClient> =>
  cluster.client()

/**
 * `client` of a driver whose clusters have a kubeconfig of their own; the user's is never read.
 * Throws in one sentence if there is none.
 */
export async function clientFromKubeconfig(cluster: ReachedCluster): Promise<KubeClient> {
  if (!existsSync(cluster.kubeconfig)) throw notUp(cluster)
  return (await import('./api-client.ts')).clientFromFile(cluster)
}

/**
 * The objects of a list of the API as plain JSON, each with its apiVersion and kind. The first path
 * that exists is read.
 * @throws Error when the API server refuses the request, or has none of the paths
 */
export async function listObjects<T extends object = KubernetesObject>(
  { read }: Pick<KubeClient, 'read'>,
  ...paths: readonly string[]
): Promise<T[]> {
  for (const path of paths) {
    const list = (await read(path)) as { apiVersion: string; kind: string; items: T[] } | undefined
    if (list)
      return list.items.map((item) => ({
        apiVersion: list.apiVersion,
        kind: list.kind.replace(/List$/, ''),
        ...item,
      }))
  }
  throw new Error(`the API server has no ${paths[0]}`)
}

/**
 * The answer to a request; undefined when the API server refuses it with this code: 404 for no such
 * object, 409 for an existing one.
 */
export async function unlessCode<Answer>(
  code: 404 | 409,
  request: Promise<Answer>,
): Promise<Answer | undefined> {
  try {
    return await request
  } catch (error) {
    if ((error as { code?: unknown }).code === code) return undefined
    throw error
  }
}
