// The variables that the labs' texts use in a shell, as the cluster is now: a Service that was made
// again has another address.

import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { Trouble } from '../../grading/failure.ts'
import type { Snapshot } from '../../grading/snapshot.ts'

/** What needs no quotes in an assignment. */
const PLAIN = /^[\w.:-]+$/

/**
 * Lines of a shell's assignments: `WEB` (ClusterIP of the Service web), `NP` (node port of web-np),
 * `WORKER` (the first worker), `CP` (the control plane's address), `CLIENT` (the address of the Pod
 * client). One that is not there is left out. `web` is the Service's name in the learner's variant.
 */
export function labVariables(
  { items, objects }: Pick<Snapshot, 'items' | 'objects'>,
  web = 'web',
): string {
  if (objects instanceof Trouble) return ''
  const service = (name: string) =>
    objects.services.find((one) => one.namespace === 'default' && one.name === name)
  const isControlPlane = (name: string) =>
    items.some(
      ({ kind, metadata }) =>
        kind === 'Node' && metadata.name === name && hasRole(metadata.labels ?? {}),
    )
  const client = items.find(
    ({ kind, metadata }) =>
      kind === 'Pod' && metadata.namespace === 'default' && metadata.name === 'client',
  )
  const values: Record<string, unknown> = {
    WEB: service(web)?.clusterIPs[0],
    NP: service(`${web}-np`)?.ports[0]?.nodePort,
    WORKER: objects.nodes.find(({ name }) => !isControlPlane(name))?.name,
    CP: objects.nodes.find(({ name }) => isControlPlane(name))?.internalIPs[0],
    CLIENT: client?.status?.podIP,
  }
  return Object.entries(values)
    .filter(([, value]) => PLAIN.test(String(value ?? '')))
    .map(([name, value]) => `${name}=${value}\n`)
    .join('')
}

const hasRole = (labels: Record<string, string>) =>
  Object.keys(labels).some((label) =>
    /^node-role\.kubernetes\.io\/(control-plane|master)$/.test(label),
  )

/** Writes a file of variables, only for this user, whole at any moment. */
export function writeVariables(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(`${file}.new`, text, { mode: 0o600 })
  renameSync(`${file}.new`, file)
}
