import type { CheckContext } from '../../grading/check-context.ts'
import { fail } from '../../grading/failure.ts'
import { variantIn } from '../../grading/variant.ts'
import { webService } from '../../grading/web-service.ts'

const LOOK = 'kubectl get pods,endpointslices -l app=web -o wide'

/** As many ready Pods of web as the variant wants, on at least two nodes, are the endpoints of its Service. */
export function backendsOnTwoNodes({ snapshot }: CheckContext): void {
  const { name, backends } = webService(snapshot)
  const { replicas } = variantIn(snapshot)
  const nodes = new Set(backends.map(({ node }) => node))
  if (backends.length >= replicas && nodes.size >= 2) return
  fail({
    look: LOOK,
    expected: `${replicas} ready endpoints, on two nodes or more, in the EndpointSlice of ${name}`,
    actual:
      backends.length < replicas
        ? `${backends.length} ready ${backends.length === 1 ? 'endpoint' : 'endpoints'}`
        : `${backends.length} endpoints, all on ${[...nodes][0]}`,
    hint: 'make web creates what is missing; kubectl describe pods -l app=web says what keeps a Pod from being ready.',
  })
}
