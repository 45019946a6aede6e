import type { Service } from '../../dataplane/objects.ts'
import type { CheckContext } from '../check-context.ts'
import { inSet, mustEqualPrediction, onNode } from '../difference-report.ts'
import { fail } from '../failure.ts'

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
  const [from] = nodes.slice(-1)
  if (!live || !from) return
  const urls = snapshot.objects.nodes.flatMap((node) =>
    node.internalIPs.slice(0, 1).map((ip) => `http://${ip}:${nodePort}/`),
  )
  const script = `curl -sS --fail --max-time 3 ${urls.map((url) => `-o /dev/null ${url}`).join(' ')}`
  const { exitCode, stderr } = await live.onNode(from.name, script)
  if (exitCode !== 0)
    fail({
      node: from.name,
      look: onNode(from.name, `curl -sS --max-time 3 ${urls.join(' ')}`),
      expected: `an answer on port ${nodePort} of every node`,
      actual: stderr.trim().split('\n')[0] || `curl ended with ${exitCode}`,
    })
}

const isLearners = (service: Service) =>
  service.namespace === 'default' && service.type === 'NodePort' && service.ports.some((port) => port.nodePort > 0)
