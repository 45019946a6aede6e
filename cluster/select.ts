import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { requireSupport } from '../embedded/index.ts'
import { clusterName, kindFolder, offlineRoot } from '../host/layout.ts'
import { Refusal, reasonOf } from '../host/main.ts'
import { OUTSIDE } from '../host/outside.ts'
import type { Progress } from '../host/progress.ts'
import { cannotStartLab, chooseCluster, UNMEASURABLE } from './doctor/choose.ts'
import type { LabNeeds } from './doctor/facts.ts'
import { type Cluster, requireUp } from './driver.ts'
import { EmbeddedCluster } from './embedded.ts'

const contextPrefix = 'context:'

/** The purpose of a selection, which limits the choice. */
export interface Purpose {
  /** If there is no cluster, one is about to be created; this shows the progress of downloads. */
  creating?: Progress
  /** The lab that is about to start. */
  lab?: LabNeeds
}

/**
 * The cluster that `CLUSTER` selects: `embedded`, `kind`, `context:NAME` (a context of the user's
 * kubeconfig), or `auto` (the default, cluster/doctor/choose.ts): the one that exists, else kind if
 * it is available, else embedded. The default in the offline archive is `embedded`, because kind
 * fetches images. Throws with the accepted values on any other, and in one sentence if no cluster
 * fits the purpose.
 */
export async function selectCluster(
  requested = process.env.CLUSTER || (offlineRoot === undefined ? 'auto' : 'embedded'),
  name = clusterName(),
  purpose: Purpose = {},
): Promise<Cluster> {
  if (purpose.lab) await requireMeasurable(purpose.lab)
  requireKnownCluster(requested)
  if (requested === 'embedded') return new EmbeddedCluster(name, purpose.lab)
  // Each driver is loaded only when it is used, so that commands start faster.
  if (requested === 'kind') return new (await import('./kind.ts')).KindCluster(name)
  if (requested.startsWith(contextPrefix)) {
    const { ContextCluster } = await import('./context.ts')
    return ContextCluster.open(requested.slice(contextPrefix.length))
  }
  return automatic(name, purpose)
}

/** @throws Error with the accepted values for a `CLUSTER` that is none of them */
export function requireKnownCluster(requested: string): void {
  if (['auto', 'embedded', 'kind'].includes(requested)) return
  if (requested.startsWith(contextPrefix) && requested !== contextPrefix) return
  throw new Error(
    `CLUSTER="${requested}" is not known: use "auto", "embedded", "kind" or "context:NAME".`,
  )
}

/**
 * The selected cluster, for a command that needs it running. Throws one sentence with the reason if
 * it is not.
 */
export async function runningCluster(): Promise<Cluster> {
  const cluster = await selectCluster()
  await requireUp(cluster)
  return cluster
}

/**
 * The machine that `NODE` names: a node, or the machine outside the cluster. Throws as chosenNode
 * does.
 */
export async function chosenMachine(cluster: Cluster): Promise<string> {
  return process.env.NODE === OUTSIDE && cluster.capabilities.hasOutside
    ? OUTSIDE
    : chosenNode(cluster)
}

/** The node that `NODE` names, or the first worker. Throws with the existing names. */
export async function chosenNode(cluster: Cluster, named = process.env.NODE): Promise<string> {
  const nodes = await cluster.nodes()
  // npm sets NODE to the path of its Node.js for its child processes.
  const requested = named?.includes('/') ? undefined : named
  const node = requested || (nodes.find((name) => !name.endsWith('control-plane')) ?? nodes[0])
  if (node !== undefined && nodes.includes(node)) return node
  throw new Refusal(`There is no node "${node}": use NODE= with one of ${nodes.join(', ')}.`)
}

/** Throws for a lab that measures, on whichever cluster, where its measuring kernel can't run. */
async function requireMeasurable(lab: LabNeeds): Promise<void> {
  if (!lab.measures) return
  try {
    await requireSupport('uml')
  } catch (error) {
    throw new Refusal(
      cannotStartLab(lab, `${UNMEASURABLE} (${reasonOf(error).replace(/\.$/, '')})`),
    )
  }
}

/**
 * In most cases an embedded cluster runs, or ended by itself, or there is no engine: then there is
 * nothing to choose.
 */
async function automatic(name: string, { creating, lab }: Purpose): Promise<Cluster> {
  const embedded = new EmbeddedCluster(name, lab)
  if ((await embedded.running()) || embedded.unexpectedEnd()) return embedded
  const [{ containerEngine }, { KindCluster }] = await Promise.all([
    import('./kind/engine.ts'),
    import('./kind.ts'),
  ])
  const engine = await containerEngine()
  const kindWasMade = existsSync(join(kindFolder(name), 'kubeconfig'))
  if (!engine && !kindWasMade) return embedded
  const kind = new KindCluster(name, engine)
  const kindExists = engine !== undefined && (await kind.exists())
  const needsKernel = (lab?.kernel ?? []).length > 0
  if (kindExists && !needsKernel) return kind
  const { gatherFacts } = await import('./doctor/gather.ts')
  const facts = await gatherFacts(name, engine, {
    kernel: needsKernel,
    exists: kindExists,
    creating,
  })
  const choice = chooseCluster({ name, engine, kindExists, kindWasMade }, facts, lab)
  if ('refusal' in choice) throw new Error(choice.refusal)
  if (choice.note !== undefined) process.stderr.write(` • ${choice.note}\n`)
  return choice.driver === 'kind' ? kind : embedded
}
