import type { Service } from '../../dataplane/objects.ts'
import type { CheckContext } from '../check-context.ts'
import { inSet, mustEqualPrediction, onNode } from '../difference-report.ts'
import { fail } from '../failure.ts'
import type { LiveCluster } from '../live-cluster.ts'
import type { Snapshot } from '../snapshot.ts'

/** A NodePort Service of the learner's has a virtual server per node address and answers on every node. */
export async function nodePortAnswers({ snapshot, nodes, live }: CheckContext): Promise<void> {
  const service = snapshot.objects.services.find(isLearners)
  const nodePort = service?.ports.find((port) => port.nodePort > 0)?.nodePort
  if (!service || nodePort === undefined)
    fail({
      look: 'kubectl get services',
      expected: 'a Service of type NodePort in the default namespace',
      actual: 'no Service with a node port',
      hint: 'kubectl expose deployment web --name web-np --type NodePort --port 80',
    })
  const ofPort = (key: string) => key.endsWith(`:${nodePort}`)
  mustEqualPrediction(nodes, {
    mode: 'ipvs',
    concerns: (where) =>
      ('virtualServer' in where && ofPort(where.virtualServer)) || inSet('KUBE-NODE-PORT-TCP')(where),
    look: 'ipvsadm -Ln; ipset list KUBE-NODE-PORT-TCP',
    expected: `a virtual server for port ${nodePort} on every address of the node, and the port in KUBE-NODE-PORT-TCP`,
  })
  for (const { name, state } of nodes) {
    const internal = snapshot.objects.nodes.find((node) => node.name === name)?.internalIPs[0]
    if (state.virtualServers.some(({ address, port }) => port === nodePort && address === internal)) continue
    fail({
      node: name,
      look: onNode(name, 'ipvsadm -Ln'),
      expected: `a virtual server ${internal}:${nodePort}`,
      actual: `no virtual server for port ${nodePort} on the address of the node`,
    })
  }
  if (live) await mustAnswerEverywhere(live, snapshot, nodePort)
}

/** Requests each node's port from another node: a request to the node's own address would not pass its INPUT. */
async function mustAnswerEverywhere(live: LiveCluster, { nodes, objects }: Snapshot, nodePort: number): Promise<void> {
  const addressOf = (name: string) => objects.nodes.find((node) => node.name === name)?.internalIPs[0] ?? name
  await Promise.all(
    nodes.map(async ({ name }, index) => {
      const from = nodes[(index + 1) % nodes.length]?.name ?? name
      const request = `curl -sS --fail --max-time 3 http://${addressOf(name)}:${nodePort}/`
      const { exitCode, stderr } = await live.onNode(from, `${request} -o /dev/null`)
      if (exitCode === 0) return
      fail({
        node: name,
        look: onNode(from, request),
        expected: `an answer on port ${nodePort} of ${name}, asked from ${from}`,
        actual: stderr.trim().split('\n')[0] || `curl ended with ${exitCode}`,
      })
    }),
  )
}

const isLearners = (service: Service) =>
  service.namespace === 'default' && service.type === 'NodePort' && service.ports.some((port) => port.nodePort > 0)
