import type { CheckContext } from '../../grading/check-context.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import { fail } from '../../grading/failure.ts'
import { webService } from '../../grading/web-service.ts'
import { addressOf, localService } from './exposed-service.ts'
import { askFromOutside, asTyped } from './outside-requests.ts'

/** The health check port tells a load balancer, node by node: 200 where the Service has Pods, 503 where it has none. */
export async function healthPortTells({ snapshot, nodes, live }: CheckContext): Promise<void> {
  const { name, service } = localService(snapshot)
  const port = service.healthCheckNodePort
  if (port === 0)
    fail({
      look: `kubectl get service ${name} -o yaml | grep healthCheckNodePort`,
      expected: `a healthCheckNodePort on ${name}`,
      actual: 'none',
    })
  expectNodes(nodes)
    .chains('filter KUBE-NODEPORTS', 'filter INPUT')
    .equalPrediction('iptables', `a rule that lets health checks in on port ${port}`, {
      look: 'iptables -S KUBE-NODEPORTS',
    })
  if (!live) return
  const { backends } = webService(snapshot)
  const requests = nodes.map((node) => ({ node, address: addressOf(snapshot, node.name), port, seconds: 2 }))
  const statuses = await askFromOutside(live, requests)
  for (const [index, request] of requests.entries()) {
    const pods = backends.filter(({ node }) => node === request.node.name).length
    const status = statuses[index]?.[0]
    const wanted = pods > 0 ? 200 : 503
    if (status === wanted) continue
    fail({
      node: request.node.name,
      look: asTyped(request),
      expected: `status ${wanted}: ${request.node.name} has ${pods === 0 ? 'no Pod' : pods === 1 ? 'one Pod' : `${pods} Pods`} of web`,
      actual: status ? `status ${status}` : 'no answer',
    })
  }
}
