import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { ProcessPromise } from '../../host/command.ts'
import { kindFolder, projectRoot, requireNewName } from '../../host/layout.ts'
import { endNotedProcess, forgetProcess, noteProcess } from '../../host/live-process.ts'
import { type Progress, withProgress } from '../../host/progress.ts'
import type { Cluster } from '../driver.ts'
import { forgetComplete } from './complete-cluster.ts'
import type { EngineName } from './engine.ts'
import { nodeImage, pinnedImage } from './images.ts'

const fileIn = (folder: string) => join(folder, 'creation.json')

/** Runs kind with these words. */
export type RunKind = (args: readonly string[]) => ProcessPromise

type NamedCluster = Pick<Cluster, 'name' | 'kubeconfig'>

/**
 * Creates a cluster. Ctrl-C removes what was created, and ends this process.
 * @throws Error with kind's reason
 */
export async function createCluster(
  { name, kubeconfig }: NamedCluster,
  kind: RunKind,
  engine: EngineName,
  progress: Progress,
): Promise<void> {
  requireNewName(name)
  const folder = kindFolder(name)
  const image = await nodeImage(engine)
  forgetComplete(folder)
  progress.start(`Creating the kind cluster "${name}" (about a minute)`)
  const creation = kind([
    'create',
    'cluster',
    '--name',
    name,
    '--kubeconfig',
    kubeconfig,
    '--config',
    join(projectRoot, 'kind.yaml'),
    ...(image === pinnedImage() ? [] : ['--image', image]),
  ])
  let interrupted = false
  const interrupt = () => {
    interrupted = true
    creation.kill('SIGKILL').catch(() => {})
  }
  process.once('SIGINT', interrupt)
  if (creation.pid !== undefined) noteProcess(fileIn(folder), creation.pid)
  const { exitCode, stderr } = await creation.finally(() => forgetProcess(fileIn(folder)))
  process.off('SIGINT', interrupt)
  progress.end(exitCode === 0 && !interrupted)
  if (interrupted) {
    const removing = `Interrupted: removing the incomplete cluster "${name}"`
    await withProgress(progress, removing, () => deleteCluster({ name, kubeconfig }, kind)).catch(
      () => progress.note('`make down` removes the rest.'),
    )
    process.exit(130)
  }
  if (exitCode === 0) return
  // kind removes the containers of a creation that failed; without a kubeconfig there is no cluster
  // to remember.
  if (!existsSync(kubeconfig)) rmSync(folder, { recursive: true, force: true })
  throw new Error(
    `kind could not create the cluster (${creationReason(stderr)}). \`make doctor\` can show the cause; CLUSTER=embedded needs no engine.`,
  )
}

/**
 * The reason in kind's error output: its own line, which ends before the command that failed in a
 * node, and the last reason that kubeadm or the kubelet gave there.
 */
export function creationReason(stderr: string): string {
  const lines = stderr.trim().split('\n')
  const own = (lines.find((line) => line.startsWith('ERROR')) ?? lines.at(-1) ?? '')
    .replace(/: command "docker exec.*/, '')
    .replace(/: command "podman exec.*/, '')
  const inner = lines
    .map((line) => line.trim())
    .filter((line) => INNER_REASONS.some((reason) => reason.test(line)))
    .at(-1)
  return inner === undefined || inner === own ? own : `${own}: ${inner}`
}

/** Lines of kubeadm's and kubelet's output that name a cause. */
const INNER_REASONS = [/too many open files/i, /^error(:| execution phase)/i, /^\[kubelet-check\]/]

/** Deletes a cluster. Throws Error with kind's reason. */
export async function deleteCluster(
  { name, kubeconfig }: NamedCluster,
  kind: RunKind,
): Promise<void> {
  const { exitCode, stderr } = await kind([
    'delete',
    'cluster',
    '--name',
    name,
    '--kubeconfig',
    kubeconfig,
  ])
  if (exitCode !== 0)
    throw new Error(`kind could not delete "${name}": ${stderr.trim().split('\n').at(-1)}`)
}

/**
 * Kills a creation that outlived its command. It must not clean up: it would delete the containers
 * of the next creation, which have the same names.
 * @returns whether a creation was interrupted: its cluster is incomplete
 */
export async function endStrayCreation(folder: string): Promise<boolean> {
  const wasInterrupted = existsSync(fileIn(folder))
  await endNotedProcess(fileIn(folder), 'SIGKILL', 'the interrupted creation')
  return wasInterrupted
}
