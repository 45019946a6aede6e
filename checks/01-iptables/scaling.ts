import type { CheckContext } from '../../grading/check-context.ts'
import { fail } from '../../grading/failure.ts'
import { personalise, variantIn } from '../../grading/variant.ts'
import { findService, webService } from '../../grading/web-service.ts'
import { chainsLeadToPods } from './web-chains.ts'

const BEFORE = 'endpoints-before-scaling'
const SCALED = 'scaled'

const isCount = (value: unknown): value is number => typeof value === 'number' && value > 0

/** Remembers with how many endpoints the Service web was seen first. */
export function keepEndpoints({ snapshot, notes }: CheckContext): void {
  if (!findService(snapshot, variantIn(snapshot).name)) return
  const { backends } = webService(snapshot)
  if (backends.length > 0) notes.keep(BEFORE, backends.length)
}

/** The number of Pods changed, and with it the EndpointSlices and the rules of every node. */
export function rulesFollowScaling(context: CheckContext): void {
  const { snapshot, notes } = context
  if (notes.read(SCALED, isCount)) return
  const { backends } = webService(snapshot)
  const before = notes.read(BEFORE, isCount) ?? backends.length
  if (backends.length === before)
    fail({
      look: 'kubectl get endpointslices -l app=web',
      expected: `another number of ready Pods than the ${before} of before`,
      actual: `${backends.length}, as before`,
      hint: personalise('kubectl scale deployment web --replicas=5', variantIn(snapshot)),
    })
  chainsLeadToPods(context)
  notes.keep(SCALED, backends.length)
}
