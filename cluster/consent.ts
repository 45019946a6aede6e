import { rawOutput } from '../host/output.ts'
import { plainText } from '../host/plain-text.ts'
import type { Cluster } from './driver.ts'

/** The user did not agree to a change of a cluster that is not ours; nothing was changed. */
export class ConsentError extends Error {}

/** Whether a cluster may be changed at once: ours may, one of the user's kubeconfig only with `YES=1`. */
export function mayChange({ driver }: Pick<Cluster, 'driver'>): boolean {
  return driver !== 'context' || process.env.YES === '1'
}

/**
 * Asks before something is changed on a cluster that is not ours: `change` says what, as in "restart kube-proxy". Clusters of
 * our own making, and `YES=1`, are not asked.
 * @throws ConsentError when the answer is no, or when there is nobody to ask
 */
export async function consent(cluster: Pick<Cluster, 'driver' | 'name'>, change: string): Promise<void> {
  if (mayChange(cluster)) return
  const place = `the cluster of context "${cluster.name}"`
  if (!process.stdin.isTTY || !process.stdout.isTTY)
    throw new ConsentError(`This would ${change} on ${place}; nothing was changed. If that is meant, say YES=1.`)
  const { question } = await import('zx')
  const asked = plainText(`This will ${change} on ${place}. Go on? [y/N] `)
  const answer = await question(asked, { output: rawOutput(process.stdout) })
  if (!/^\s*y(es)?\s*$/i.test(answer)) throw new ConsentError('Nothing was changed.')
}
