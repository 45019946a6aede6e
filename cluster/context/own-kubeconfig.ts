import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import type { KubeConfig } from '@kubernetes/client-node'
import { cacheFolder } from '../../host/layout.ts'

/** Folder of what is kept about one context. Names such as `arn:aws:eks:…/x` can't be folders as they are. */
export function contextFolder(context: string, cache = cacheFolder): string {
  const plain = context.replace(/[^\w.@-]/g, '_').replace(/^\.+/, '_')
  const suffix = plain === context ? '' : `-${createHash('sha256').update(context).digest('hex').slice(0, 8)}`
  return join(cache, 'contexts', `${plain.slice(0, 80)}${suffix}`)
}

/**
 * Copies one context of the user's kubeconfig (`KUBECONFIG`, else the default file), with its cluster and user, into a file
 * of our own: the user's is only read. Returns the file's path.
 * @throws Error naming the contexts there are when this one does not exist; and when there is no kubeconfig
 */
export async function ownKubeconfig(context: string, cache = cacheFolder): Promise<string> {
  const { KubeConfig } = await import('../kubernetes.ts')
  const config = new KubeConfig()
  const files = kubeconfigFiles()
  // Without a file the client makes up a context of its own.
  if (!files.some((file) => existsSync(file)))
    throw new Error(
      `CLUSTER="context:${context}" names no context, because there is no kubeconfig: ${files.join(', ')} does not exist. KUBECONFIG= names another file.`,
    )
  try {
    config.loadFromDefault()
  } catch (error) {
    const reason = error instanceof Error ? error.message.split('\n')[0] : String(error)
    throw new Error(`Your kubeconfig (${files.join(', ')}) can't be read: ${reason}.`)
  }
  const single = singleContext(config, context)
  const folder = contextFolder(context, cache)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const file = join(folder, 'kubeconfig')
  writeFileSync(file, `${single}\n`, { mode: 0o600 })
  return file
}

/** Where the user's kubeconfig is looked for, as kubectl looks. */
function kubeconfigFiles(): string[] {
  const named = (process.env.KUBECONFIG ?? '').split(delimiter).filter((file) => file !== '')
  return named.length > 0 ? named : [join(homedir(), '.kube', 'config')]
}

function singleContext(config: KubeConfig, name: string): string {
  const context = config.getContextObject(name)
  if (!context) {
    const names = config.getContexts().map((one) => `"${one.name}"`)
    throw new Error(
      `CLUSTER="context:${name}" names no context of your kubeconfig: there ${names.length > 0 ? `are ${names.join(', ')}` : 'are none'}.`,
    )
  }
  const whole = JSON.parse(config.exportConfig()) as Record<string, { name: string }[]>
  const only = (key: string, wanted: string) => (whole[key] ?? []).filter((one) => one.name === wanted)
  return JSON.stringify({
    ...whole,
    clusters: only('clusters', context.cluster),
    users: only('users', context.user),
    contexts: only('contexts', name),
    'current-context': name,
  })
}
