import type { CheckContext } from '../check-context.ts'
import { fail } from '../failure.ts'
import { webService } from '../web-service.ts'

const LOOK = 'kubectl get pods,endpointslices -l app=web -o wide'

/** At least two ready Pods of web, on at least two nodes, are the endpoints of its Service. */
export function twoBackendsOnTwoNodes({ snapshot }: CheckContext): void {
  const { backends } = webService(snapshot)
  const nodes = new Set(backends.map(({ node }) => node))
  if (backends.length >= 2 && nodes.size >= 2) return
  fail({
    look: LOOK,
    expected: 'two ready endpoints on two nodes in the EndpointSlice of web',
    actual:
      backends.length < 2
        ? `${backends.length} ready ${backends.length === 1 ? 'endpoint' : 'endpoints'}`
        : `${backends.length} endpoints, all on ${[...nodes][0]}`,
    hint: 'make web creates what is missing; kubectl describe pods -l app=web says what keeps a Pod from being ready.',
  })
}
