import type { CheckContext } from '../../grading/check-context.ts'
import { expectSpread } from '../../grading/expect-object.ts'
import { fail, NotApplicable } from '../../grading/failure.ts'
import { WEB_NAMESPACE, webService } from '../../grading/web-service.ts'
import { localService } from './exposed-service.ts'
import { drawShares, measureShares } from './measured-shares.ts'
import { isShares, isUneven, type PodShare, podsByNode, spanOf } from './shares.ts'

const NOTE = 'uneven-shares'
const LOOK = `kubectl -n ${WEB_NAMESPACE} get pods -l app=web -o wide`
/** A Pod with fewer neighbours gets clearly more than one with many. */
const CLEARLY = 1.15

/** The shares that were measured while the Pods stood unevenly. */
export const unevenShares = ({ notes }: CheckContext): PodShare[] | undefined => notes.read(NOTE, isShares)

/** With uneven Pods under externalTrafficPolicy Local, a Pod's share depends on how many neighbours it has: measured, and kept. */
export async function sharesAreUneven(context: CheckContext): Promise<void> {
  const { snapshot, live, notes, show } = context
  const known = live && unevenShares(context)
  if (known) return show(drawShares(known, 'from outside, by Pod, when they stood unevenly'))
  localService(snapshot)
  const pods = podsByNode(snapshot, webService(snapshot))
  const spreadUnevenly = (counts: readonly number[]) => counts.length >= 2 && isUneven(counts)
  if (!live && !spreadUnevenly([...pods.values()]))
    throw new NotApplicable('the Pods were spread evenly when this capture was taken')
  expectSpread(pods, spreadUnevenly, {
    look: LOOK,
    expected: 'Pods of web on two nodes or more, on one of them more than on another',
    hint: 'A node that takes no new Pods for a while makes it so: kubectl cordon it, scale web to 4 (or 6, where there are more than two already), kubectl uncordon it.',
  })
  if (!live) return
  const { shares } = await measureShares(context, live)
  const perPod = [...pods].map(([node, count]) => ({
    count,
    mean: shares.filter((one) => one.node === node).reduce((sum, { requests }) => sum + requests, 0) / count,
  }))
  const lone = perPod.reduce((least, one) => (one.count < least.count ? one : least))
  const crowded = perPod.reduce((most, one) => (one.count > most.count ? one : most))
  if (lone.mean < crowded.mean * CLEARLY)
    fail({
      look: LOOK,
      expected: 'a Pod with few neighbours that clearly gets more than one with many',
      actual: `from ${spanOf(shares)} of the requests for one Pod`,
    })
  notes.keep(NOTE, shares)
}
