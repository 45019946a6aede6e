// A cluster all of whose nodes were Ready once: what is recorded of it in the cluster's folder.

import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { kindFolder } from '../../host/layout.ts'
import { type Progress, withProgress } from '../../host/progress.ts'
import type { EngineName } from './engine.ts'
import { stopBalancer } from './load-balancer/appliance.ts'
import { ADDRESS, inspect, restartInOrder } from './node-containers.ts'

const completeFile = (folder: string) => join(folder, 'whole')

/**
 * Records that every node of this cluster was Ready once, and the nodes' addresses: from now on the
 * cluster is removed only with consent.
 */
export function recordComplete(folder: string, addresses: ReadonlyMap<string, string>): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  writeFileSync(
    completeFile(folder),
    [...addresses].map(([node, address]) => `${node} ${address}\n`).join(''),
  )
}

/**
 * The addresses of the nodes when the cluster was complete, by node; empty if none were recorded.
 */
function recordedAddresses(folder: string): Map<string, string> {
  const lines = wasComplete(folder)
    ? readFileSync(completeFile(folder), 'utf8').match(/^\S+ \S+$/gm)
    : []
  return new Map(lines?.map((line) => line.split(' ') as [string, string]))
}

export const wasComplete = (folder: string): boolean => existsSync(completeFile(folder))

export function forgetComplete(folder: string): void {
  rmSync(completeFile(folder), { force: true })
}

/**
 * A restart of the engine starts the nodes in any order, so that each may get the address of
 * another one; API server and etcd listen on the address in kubeadm's configuration. The nodes are
 * restarted in the order of their recorded addresses.
 */
export async function restoreAddresses(
  engine: EngineName,
  cluster: string,
  progress: Progress,
): Promise<void> {
  const recorded = recordedAddresses(kindFolder(cluster))
  const now = await inspect(engine, ADDRESS, [...recorded.keys()])
  const moved = [...recorded].filter(
    ([node, address]) => now.has(node) && now.get(node) !== address,
  )
  if (moved.length === 0) return
  const which = moved
    .map(([node, address]) => `${node} ${now.get(node)} instead of ${address}`)
    .join(', ')
  progress.note(`The restart exchanged addresses of nodes: ${which}.`)
  const numeric = new Intl.Collator('en', { numeric: true })
  const inOrder = [...recorded].sort(([, a], [, b]) => numeric.compare(a, b)).map(([node]) => node)
  await stopBalancer(engine, cluster)
  await withProgress(progress, 'Restarting the nodes in the order of their addresses', () =>
    restartInOrder(engine, inOrder),
  )
}
