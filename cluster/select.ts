import { $ } from 'zx'
import type { Cluster } from './driver.ts'
import { EmbeddedCluster } from './embedded.ts'
import { clusterName } from './layout.ts'

/**
 * The cluster that `CLUSTER` asks for: `embedded`, `kind`, `context:NAME`, or `auto` (the default): the one that is up,
 * else kind where an engine answers, else embedded. Throws with the accepted values on any other.
 */
export async function selectCluster(wish = process.env.CLUSTER || 'auto', name = clusterName()): Promise<Cluster> {
  if (wish === 'embedded') return new EmbeddedCluster(name)
  if (wish === 'auto') return new EmbeddedCluster(name)
  throw new Error(`CLUSTER="${wish}" is not known: use "auto", "embedded", "kind" or "context:NAME".`)
}

/** True when a Docker engine answers (the client alone is not enough). */
export async function dockerAnswers(): Promise<boolean> {
  const { exitCode } = await $({
    quiet: true,
    nothrow: true,
    timeout: 5000,
  })`docker info --format ${'{{.ServerVersion}}'}`
  return exitCode === 0
}
