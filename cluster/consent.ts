import { rawOutput } from '../host/output.ts'
import { plainText } from '../host/plain-text.ts'
import type { Cluster } from './driver.ts'

/** The user did not agree to a change of a cluster that is not ours; nothing was changed. */
export class ConsentError extends Error {}

/** What was agreed to in this command, by cluster: the first change asks for all. */
const agreements = new WeakMap<object, Promise<void>>()

/**
 * Asks before the first change of a command to a cluster that is not ours: `change` says what it will touch, as in "restart
 * kube-proxy". What comes later in the command is part of it. Clusters of our own making are not asked; `YES=1` agrees, and
 * what is touched is told.
 * @throws ConsentError when the answer is no, or when there is nobody to ask
 */
export function consent(cluster: Pick<Cluster, 'driver' | 'name'>, change: string): Promise<void> {
  if (cluster.driver !== 'context') return Promise.resolve()
  const agreed = agreements.get(cluster)
  if (agreed) return agreed
  const asked = ask(cluster.name, change)
  agreements.set(cluster, asked)
  asked.catch(() => agreements.delete(cluster))
  return asked
}

async function ask(context: string, change: string): Promise<void> {
  const place = `the cluster of context "${context}"`
  if (process.env.YES === '1') process.stderr.write(` • YES=1: this will ${change} on ${place}.\n`)
  await askToGoOn(
    `This will ${change} on ${place}.`,
    `This would ${change} on ${place}; nothing was changed. If that is meant, say YES=1.`,
  )
}

/**
 * Asks whether to go on with what `announcement` says; `YES=1` is a yes.
 * @throws ConsentError when the answer is no, with `refusal` when there is no terminal to ask at
 */
export async function askToGoOn(announcement: string, refusal: string): Promise<void> {
  if (process.env.YES === '1') return
  if (!process.stdin.isTTY || !process.stdout.isTTY) throw new ConsentError(refusal)
  const { question } = await import('zx')
  const answer = await question(plainText(`${announcement} Go on? [y/N] `), { output: rawOutput(process.stdout) })
  if (!/^\s*y(es)?\s*$/i.test(answer)) throw new ConsentError('Nothing was changed.')
}
