import type { Service } from '../../dataplane/objects.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { expectField, findService, WEB_NAMESPACE, webService } from '../../grading/expect-object.ts'
import { expectFound } from '../../grading/failure.ts'
import { objectsOf, type Snapshot } from '../../grading/snapshot.ts'
import { personalise, variantIn } from '../../grading/variant.ts'
import { expectServiceChains } from '../01-iptables/service-chains.ts'
import { backendsOnTwoNodes } from '../web-client.ts'

/** A Service of the learner that outside clients can reach, in front of the web Pods, and the first of its TCP ports. */
interface ExposedService {
  service: Service
  name: string
  /** The port on its ClusterIP and load balancer addresses. */
  port: number
  nodePort: number
}

/** The Service of type NodePort in front of the web Pods; fails when there is none. */
export const nodePortService = (snapshot: Snapshot): ExposedService => expectExposed(snapshot, 'NodePort', 'np')

/** The Service of type LoadBalancer in front of the web Pods, and its address; fails when either is missing. */
export function loadBalancerService(snapshot: Snapshot): ExposedService & { address: string } {
  const exposed = expectExposed(snapshot, 'LoadBalancer', 'lb')
  const { name, service } = exposed
  const ingress = service.loadBalancerIngress.find(({ ip }) => ip !== undefined && !ip.includes(':'))
  const address = expectFound(ingress?.ip, {
    inspect: `kubectl get service ${name}`,
    expected: `an IPv4 address in the status of ${name}`,
    actual: 'none: its EXTERNAL-IP is pending',
    why: 'Kubernetes only requests the address. A load balancer in front of the cluster must assign it and receive the traffic.',
    hint: 'On kind, LB=own make up starts the load balancer. The events of the Service show which program handles it:',
    next: `kubectl describe service ${name}`,
  })
  return { ...exposed, address }
}

/** The Service of type LoadBalancer, which must have externalTrafficPolicy Local. */
export function localService(snapshot: Snapshot): ReturnType<typeof loadBalancerService> {
  const exposed = loadBalancerService(snapshot)
  expectPolicy(exposed.service, 'Local')
  return exposed
}

/** The Service has the wanted externalTrafficPolicy. */
export function expectPolicy({ name, externalTrafficPolicy }: Service, wanted: Service['externalTrafficPolicy']): void {
  expectField(`service ${name}`, 'externalTrafficPolicy', {
    holds: externalTrafficPolicy === wanted,
    expected: `externalTrafficPolicy: ${wanted} on ${name}`,
    actual: `externalTrafficPolicy: ${externalTrafficPolicy}`,
    hint: `kubectl patch service ${name} -p '{"spec":{"externalTrafficPolicy":"${wanted}"}}'`,
  })
}

/** If there are several: the one in the lab text, else one with policy Cluster, else the first by name. */
function expectExposed(snapshot: Snapshot, type: 'NodePort' | 'LoadBalancer', suffix: 'np' | 'lb'): ExposedService {
  const variant = variantIn(snapshot)
  const rank = ({ name, externalTrafficPolicy }: Service) =>
    name === `${variant.name}-${suffix}` ? 0 : externalTrafficPolicy === 'Cluster' ? 1 : 2
  const candidates = objectsOf(snapshot).services.flatMap((service): ExposedService[] => {
    const first = service.ports.find(({ protocol, nodePort }) => protocol === 'TCP' && nodePort > 0)
    const isOurs = service.namespace === WEB_NAMESPACE && service.selector.app === 'web' && service.type === type
    return isOurs && first ? [{ service, name: service.name, port: first.port, nodePort: first.nodePort }] : []
  })
  const [chosen] = candidates.sort((a, b) => rank(a.service) - rank(b.service) || a.name.localeCompare(b.name))
  return expectFound(chosen, {
    inspect: 'kubectl get services',
    expected: `a Service of type ${type} in the default namespace, in front of the Pods of web`,
    actual: 'no such Service',
    hint: personalise(`kubectl expose deployment web --name web-${suffix} --type ${type} --port 80`, variant),
  })
}

/** web runs on two workers, and every node has the chains of its ClusterIP. */
export function webHasChains(context: CheckContext): void {
  backendsOnTwoNodes(context)
  const { snapshot, nodes } = context
  const service = findService(snapshot, webService(snapshot).name)
  if (service)
    expectServiceChains(nodes, service, {
      chains: [],
      inspect: 'iptables -t nat -S | grep default/web',
      expected: 'a KUBE-SVC chain for web that leads to each of its Pods',
    })
}
