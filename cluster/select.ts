import type { Cluster } from './driver.ts'
import { EmbeddedCluster } from './embedded.ts'
import { containerEngine, imageReachable } from './kind/engine.ts'
import { KindCluster, nodeImage } from './kind.ts'
import { clusterName } from './layout.ts'

/**
 * The cluster that `CLUSTER` asks for: `embedded`, `kind`, or `auto` (the default): the one that is up, else kind where an
 * engine answers that has or can fetch the node image, else embedded. Throws with the accepted values on any other.
 */
export async function selectCluster(wish = process.env.CLUSTER || 'auto', name = clusterName()): Promise<Cluster> {
  if (wish === 'embedded') return new EmbeddedCluster(name)
  if (wish === 'kind') return new KindCluster(name)
  if (wish !== 'auto') throw new Error(`CLUSTER="${wish}" is not known: use "auto", "embedded" or "kind".`)
  const embedded = new EmbeddedCluster(name)
  if (await embedded.running()) return embedded
  const engine = await containerEngine()
  if (!engine) return embedded
  const kind = new KindCluster(name)
  if ((await kind.running()) || (await imageReachable(engine, nodeImage()))) return kind
  process.stderr.write(` • ${engine} answers, but the node image can't be had: using the embedded cluster.\n`)
  return embedded
}
