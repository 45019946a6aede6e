import type { KubernetesObject } from '@kubernetes/client-node'
import type { KubeClient } from '../kube-client.ts'
import { ApiException } from '../kubernetes.ts'
import { ownSelector } from './write-guard.ts'

/** Where the labs work: their texts, chain names (hashes of "default/web") and answers name it. */
const namespace = 'default'

/** One object of the labs in a cluster of the user's. */
export interface OwnObject {
  /** `Service "web"`, for a question. */
  what: string
  /** Deletes it; no error if it is already gone. */
  remove(): Promise<void>
}

/**
 * The objects with our label in the namespace of the labs: lab notes, the learner's name, and workloads. Pods of a
 * Deployment or DaemonSet go with it.
 */
export async function ownObjects({ core, apps }: KubeClient): Promise<OwnObject[]> {
  const wanted = { namespace, labelSelector: ownSelector }
  const lists = await Promise.all([
    apps
      .listNamespacedDeployment(wanted)
      .then(each('Deployment', (name) => apps.deleteNamespacedDeployment({ namespace, name }))),
    apps
      .listNamespacedDaemonSet(wanted)
      .then(each('DaemonSet', (name) => apps.deleteNamespacedDaemonSet({ namespace, name }))),
    core
      .listNamespacedService(wanted)
      .then(each('Service', (name) => core.deleteNamespacedService({ namespace, name }))),
    core.listNamespacedPod(wanted).then(each('Pod', (name) => core.deleteNamespacedPod({ namespace, name }))),
    core
      .listNamespacedConfigMap(wanted)
      .then(each('ConfigMap', (name) => core.deleteNamespacedConfigMap({ namespace, name }))),
  ])
  return lists.flat()
}

const each =
  (kind: string, remove: (name: string) => Promise<unknown>) =>
  ({ items }: { items: KubernetesObject[] }): OwnObject[] =>
    items
      .filter(({ metadata }) => !metadata?.ownerReferences?.some(({ controller }) => controller))
      .map(({ metadata }) => metadata?.name ?? '')
      .map((name) => ({ what: `${kind} "${name}"`, remove: () => unlessGone(remove(name)) }))

async function unlessGone(deletion: Promise<unknown>): Promise<void> {
  try {
    await deletion
  } catch (error) {
    if (!(error instanceof ApiException && error.code === 404)) throw error
  }
}
