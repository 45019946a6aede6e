import { Refusal } from '../dataplane/refusal.ts'
import { rawOutput } from '../host/output.ts'
import { plainText } from '../host/plain-text.ts'
import { isOn } from '../host/switches.ts'
import type { Cluster } from './driver.ts'

/** The user did not agree to a change of a cluster that is not ours; nothing was changed. */
export class ConsentError extends Refusal {}

/** What the user agreed to in this command, by cluster: the first change asks once for all. */
const agreements = new WeakMap<object, Promise<void>>()

/**
 * Asks the user before a command's first change to a cluster that is not ours; `change` describes
 * it, as in "restart kube-proxy". The answer also covers later changes of the same command. For
 * clusters that we created there is no question; with `YES=1` the change is printed instead.
 * @throws ConsentError when the answer is no, or when there is no terminal
 */
export function consent(
  cluster: Pick<Cluster, 'capabilities' | 'name'>,
  change: string,
): Promise<void> {
  if (!cluster.capabilities.ownedByUser) return Promise.resolve()
  const agreed = agreements.get(cluster)
  if (agreed) return agreed
  const agreement = ask(cluster.name, change)
  agreements.set(cluster, agreement)
  agreement.catch(() => agreements.delete(cluster))
  return agreement
}

async function ask(context: string, change: string): Promise<void> {
  const place = `the cluster of context "${context}"`
  if (isOn('YES')) process.stderr.write(` • YES=1: this will ${change} on ${place}.\n`)
  await askToContinue(
    `This will ${change} on ${place}.`,
    `This would ${change} on ${place}; nothing was changed. If this is intended, set YES=1.`,
  )
}

/**
 * Asks whether to continue with what `announcement` describes; `YES=1` is a yes.
 * @throws ConsentError when the answer is no, with `refusal` when there is no terminal to ask at
 */
export async function askToContinue(announcement: string, refusal: string): Promise<void> {
  if (isOn('YES')) return
  if (!process.stdin.isTTY || !process.stdout.isTTY) throw new ConsentError(refusal)
  const { question } = await import('zx')
  const answer = await question(plainText(`${announcement} Continue? [y/N] `), {
    output: rawOutput(process.stdout),
  })
  if (!/^\s*y(es)?\s*$/i.test(answer)) throw new ConsentError('Nothing was changed.')
}
