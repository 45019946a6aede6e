import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import { cacheFolder } from '../../host/layout.ts'
import { readPlainFile } from '../../host/plain-file.ts'
import { type KubeClient, listObjects, unlessCode } from '../kube-client.ts'
import { KubeConfig, KubernetesObjectApi } from '../kubernetes.ts'
import { ownSelector } from './write-guard.ts'

/**
 * The namespace of the labs: their texts, chain names (hashes of "default/web") and answers depend
 * on it.
 */
const namespace = 'default'

/**
 * The lists of what we create: the namespace of the node-access Pods; workloads, Services, lab
 * notes and the learner's name.
 */
const COLLECTIONS = [
  '/api/v1/namespaces',
  ...['deployments', 'daemonsets'].map((name) => `/apis/apps/v1/namespaces/${namespace}/${name}`),
  ...['services', 'pods', 'configmaps'].map((name) => `/api/v1/namespaces/${namespace}/${name}`),
]

/**
 * The objects with our label, without Pods of a Deployment or DaemonSet, which go with it: each as
 * in `Service "web"`, and its deletion, which ignores that it is already gone. An object that is
 * being deleted is among them until it is gone.
 */
export async function ownObjects(client: KubeClient) {
  const selector = encodeURIComponent(ownSelector)
  const lists = COLLECTIONS.map((path) => listObjects(client, `${path}?labelSelector=${selector}`))
  const objects = KubernetesObjectApi.makeApiClient(client.config)
  return (await Promise.all(lists))
    .flat()
    .filter(({ metadata }) => !metadata?.ownerReferences?.some(({ controller }) => controller))
    .map((object) => ({
      what: `${object.kind} "${object.metadata?.name}"`,
      remove: () => unlessCode(404, objects.delete(object)),
    }))
}

/**
 * The folder for the files of one context. Names such as `arn:aws:eks:…/x` can't be folders as they
 * are.
 */
export function contextFolder(context: string, cache = cacheFolder): string {
  const plain = context.replace(/[^\w.@-]/g, '_').replace(/^\.+/, '_')
  const suffix =
    plain === context ? '' : `-${createHash('sha256').update(context).digest('hex').slice(0, 8)}`
  return join(cache, 'contexts', `${plain.slice(0, 80)}${suffix}`)
}

/**
 * Copies one context of the user's kubeconfig (`KUBECONFIG`, else the default file), with its
 * cluster and user, into a separate file: the user's file is only read. Returns the file's path.
 * @throws Error with the names of the existing contexts when this one does not exist; and when
 * there is no kubeconfig
 */
export async function ownKubeconfig(context: string, cache = cacheFolder): Promise<string> {
  const config = usersKubeconfig(context)
  const single = singleContext(config, context)
  const folder = contextFolder(context, cache)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const file = join(folder, 'kubeconfig')
  writeFileSync(file, `${single}\n`, { mode: 0o600 })
  return file
}

/**
 * The merged content of the user's kubeconfig files, as kubectl reads them: those that `KUBECONFIG`
 * names and that exist, else the default one.
 * @throws Error in one sentence when there is none, or one can't be read
 */
function usersKubeconfig(context: string): KubeConfig {
  const named = (process.env.KUBECONFIG ?? '').split(delimiter).filter((path) => path !== '')
  const paths = named.length > 0 ? named : [join(homedir(), '.kube', 'config')]
  const there = paths.filter((path) => existsSync(path))
  if (there.length === 0)
    throw new Error(
      `CLUSTER="context:${context}" needs a kubeconfig, but ${paths.map((path) => `"${path}"`).join(' and ')} ${paths.length > 1 ? 'do' : 'does'} not exist: name one with KUBECONFIG=.`,
    )
  const whole = new KubeConfig()
  for (const path of there) addKubeconfig(whole, readKubeconfig(path))
  return whole
}

/** @throws Error in one sentence when the file can't be read */
function readKubeconfig(path: string): KubeConfig {
  readPlainFile(path)
  const config = new KubeConfig()
  try {
    config.loadFromFile(path)
  } catch {
    throw new Error(
      `"${path}" is not a kubeconfig: \`kubectl config view\` shows what is wrong with it.`,
    )
  }
  return config
}

/** Adds a file's entries to `whole`. The first file that defines a name wins, as in kubectl. */
function addKubeconfig(whole: KubeConfig, file: KubeConfig): void {
  for (const cluster of file.getClusters())
    if (!whole.getCluster(cluster.name)) whole.addCluster(cluster)
  for (const user of file.getUsers()) if (!whole.getUser(user.name)) whole.addUser(user)
  for (const context of file.getContexts())
    if (!whole.getContextObject(context.name)) whole.addContext(context)
}

function singleContext(config: KubeConfig, name: string): string {
  const context = config.getContextObject(name)
  if (!context) {
    const names = config.getContexts().map((one) => `"${one.name}"`)
    throw new Error(
      `CLUSTER="context:${name}" names no context of your kubeconfig: there ${names.length > 0 ? `are ${names.join(', ')}` : 'are none'}.`,
    )
  }
  const single = new KubeConfig()
  single.loadFromOptions({
    clusters: config.getClusters().filter((one) => one.name === context.cluster),
    users: config.getUsers().filter((one) => one.name === context.user),
    contexts: [context],
    currentContext: name,
  })
  return single.exportConfig()
}
