import { serviceHash } from '../../dataplane/kube-proxy/rule-text.ts'
import type { Service } from '../../dataplane/objects.ts'
import { targetOf } from '../../dataplane/rule-text.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { inChain } from '../../grading/difference-report.ts'
import { evaluate } from '../../grading/evaluate.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import { expectField, expectFound } from '../../grading/expect-object.ts'
import { type NodeView, objectsOf, type Snapshot } from '../../grading/snapshot.ts'
import { personalise, variantIn } from '../../grading/variant.ts'
import { findService, WEB_NAMESPACE, webService } from '../../grading/web-service.ts'
import { backendsOnTwoNodes } from '../02-ipvs/web-requests.ts'

/** A Service of the learner that outside clients can reach, in front of the web Pods. */
export interface ExposedService {
  name: string
  /** The port on its ClusterIP and load balancer addresses. */
  port: number
  nodePort: number
  policy: Service['externalTrafficPolicy']
  service: Service
}

/** The Service of type NodePort in front of the web Pods; fails when there is none. */
export function nodePortService(snapshot: Snapshot): ExposedService {
  return expectExposed(snapshot, 'NodePort', 'web-np')
}

/** The Service of type LoadBalancer in front of the web Pods, and its address; fails when either is missing. */
export function loadBalancerService(snapshot: Snapshot): ExposedService & { address: string } {
  const found = expectExposed(snapshot, 'LoadBalancer', 'web-lb')
  const ingress = found.service.loadBalancerIngress.find(({ ip }) => ip !== undefined && !ip.includes(':'))
  const address = expectFound(ingress?.ip, {
    inspect: `kubectl get service ${found.name}`,
    expected: `an IPv4 address in the status of ${found.name}`,
    actual: 'none: its EXTERNAL-IP is pending',
    why: 'Kubernetes only requests the address. A load balancer in front of the cluster must assign it and receive the traffic.',
    hint: 'On kind, LB=own make up starts the load balancer. The events of the Service tell who asked for the address:',
    next: `kubectl describe service ${found.name}`,
  })
  return { ...found, address }
}

/** The Service of type LoadBalancer, which must have externalTrafficPolicy Local. */
export function localService(snapshot: Snapshot): ReturnType<typeof loadBalancerService> {
  const found = loadBalancerService(snapshot)
  expectPolicy(found, 'Local')
  return found
}

/** The Service has the wanted externalTrafficPolicy. */
export function expectPolicy({ name, policy }: ExposedService, wanted: Service['externalTrafficPolicy']): void {
  expectField(`service ${name}`, 'externalTrafficPolicy', {
    holds: policy === wanted,
    expected: `externalTrafficPolicy: ${wanted} on ${name}`,
    actual: `externalTrafficPolicy: ${policy}`,
    hint: `kubectl patch service ${name} -p '{"spec":{"externalTrafficPolicy":"${wanted}"}}'`,
  })
}

const expectExposed = (snapshot: Snapshot, type: 'NodePort' | 'LoadBalancer', name: string): ExposedService =>
  expectFound(exposed(snapshot, type), {
    inspect: 'kubectl get services',
    expected: `a Service of type ${type} in the default namespace, in front of the Pods of web`,
    actual: 'no such Service',
    hint: exposeCommand(snapshot, name, type),
  })

/** If there are several: the one in the lab text, else one with policy Cluster, else the first by name. */
function exposed(snapshot: Snapshot, type: Service['type']): ExposedService | undefined {
  const named = `${variantIn(snapshot).name}-${type === 'NodePort' ? 'np' : 'lb'}`
  const rank = ({ name, externalTrafficPolicy }: Service) =>
    name === named ? 0 : externalTrafficPolicy === 'Cluster' ? 1 : 2
  const candidates = objectsOf(snapshot).services.flatMap((service) => {
    const port = service.ports.find(({ protocol, nodePort }) => protocol === 'TCP' && nodePort > 0)
    const ours = service.namespace === WEB_NAMESPACE && service.selector.app === 'web' && service.type === type
    return ours && port ? [{ service, port }] : []
  })
  const [chosen] = candidates.sort(
    (a, b) => rank(a.service) - rank(b.service) || a.service.name.localeCompare(b.service.name),
  )
  if (!chosen) return undefined
  const { service, port } = chosen
  return {
    name: service.name,
    port: port.port,
    nodePort: port.nodePort,
    policy: service.externalTrafficPolicy,
    service,
  }
}

const exposeCommand = (snapshot: Snapshot, name: string, type: string) =>
  personalise(`kubectl expose deployment web --name ${name} --type ${type} --port 80`, variantIn(snapshot))

/**
 * Every chain of these Services (KUBE-SVC-, KUBE-SVL-, KUBE-EXT-, KUBE-FW-, KUBE-XLB-), those of their endpoints, and the
 * chains that jump to them equal the prediction on every node.
 */
export function mustBeWrittenEverywhere(
  nodes: readonly NodeView[],
  { service }: Pick<ExposedService, 'service'>,
  { chains, inspect, expected }: { chains: readonly string[]; inspect: string; expected: string },
): void {
  const own = service.ports.map(({ name, protocol }) => {
    const portName = `${service.namespace}/${service.name}${name === '' ? '' : `:${name}`}`
    return serviceHash(portName, protocol.toLowerCase())
  })
  const endpoints = new Set(nodes.flatMap((node) => endpointChains(node, own)))
  expectNodes(nodes)
    .where(
      (where) =>
        inChain(...chains)(where) ||
        ('chain' in where && (own.some((hash) => where.chain.endsWith(hash)) || endpoints.has(where.chain))),
      inspect,
    )
    .equalPrediction('iptables', expected)
}

/** The predicted KUBE-SEP- chains behind chains with these hashes. */
function endpointChains(node: NodeView, hashes: readonly string[]): string[] {
  const nat = evaluate(node, 'iptables').expected.iptables.get('nat')
  return [...(nat?.values() ?? [])]
    .filter(({ name }) => hashes.some((hash) => name.endsWith(hash)))
    .flatMap(({ rules }) => rules.flatMap(({ spec }) => targetOf(spec) ?? []))
    .filter((target) => target.startsWith('KUBE-SEP-'))
}

/** web runs on two workers, kube-proxy runs in iptables mode, and every node has the chains of its ClusterIP. */
export function webInIptablesMode(context: CheckContext): void {
  const { snapshot, nodes } = context
  expectNodes(nodes).runMode('iptables', {
    expected: 'kube-proxy in iptables mode, whose chains this lab reads',
    hint: 'Bring iptables mode back, and remove what the other one left:',
    next: 'make iptables && make flush-nat',
  })
  backendsOnTwoNodes(context)
  const service = findService(snapshot, webService(snapshot).name)
  if (service)
    mustBeWrittenEverywhere(
      nodes,
      { service },
      {
        chains: [],
        inspect: 'iptables -t nat -S | grep default/web',
        expected: 'a KUBE-SVC chain for web that leads to each of its Pods',
      },
    )
}
