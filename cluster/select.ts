import { clusterName } from '../host/layout.ts'
import type { Cluster } from './driver.ts'
import { EmbeddedCluster } from './embedded.ts'
import type { EngineName } from './kind/engine.ts'

/** What begins a wish for a cluster of the user's kubeconfig. */
const contextPrefix = 'context:'

/**
 * The cluster that `CLUSTER` asks for: `embedded`, `kind`, `context:NAME` (a context of the user's kubeconfig), or `auto` (the
 * default): the one that is there, else kind where an engine answers that has or can fetch the node image, else embedded.
 * Throws with the accepted values on any other.
 */
export async function selectCluster(wish = process.env.CLUSTER || 'auto', name = clusterName()): Promise<Cluster> {
  if (wish === 'embedded') return new EmbeddedCluster(name)
  // Each driver is loaded only where it is asked for: commands begin sooner.
  if (wish === 'kind') return new (await import('./kind.ts')).KindCluster(name)
  if (wish.startsWith(contextPrefix)) {
    const { ContextCluster } = await import('./context.ts')
    return ContextCluster.open(wish.slice(contextPrefix.length))
  }
  if (wish !== 'auto')
    throw new Error(`CLUSTER="${wish}" is not known: use "auto", "embedded", "kind" or "context:NAME".`)
  const embedded = new EmbeddedCluster(name)
  if (await embedded.running()) return embedded
  const { containerEngine } = await import('./kind/engine.ts')
  const engine = await containerEngine()
  if (!engine) return embedded
  const { KindCluster } = await import('./kind.ts')
  const kind = new KindCluster(name, engine)
  if (await kind.exists()) return kind
  if (await isImageAtHand(engine)) return kind
  process.stderr.write(` • ${engine} answers, but the node image can't be had: using the embedded cluster.\n`)
  return embedded
}

async function isImageAtHand(engine: EngineName): Promise<boolean> {
  const [{ hasImage, registryHas }, { nodeImage }] = await Promise.all([
    import('./kind/engine.ts'),
    import('./kind/node-image.ts'),
  ])
  const image = await nodeImage(engine)
  return (await hasImage(engine, image)) || (await registryHas(engine, image))
}
