// Lab 11: the fields of a Service that decide which Pods answer, and the hints that follow from one
// of them.

import { type Features, featuresOf, VersionError } from '../../dataplane/kube-proxy/versions.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { featuresOn } from '../../grading/evaluate.ts'
import { WEB_NAMESPACE, type WebService } from '../../grading/expect-object.ts'
import { expectThat, fail, OutOfReach } from '../../grading/failure.ts'
import { kubeProxyVersionOf, objectsOf } from '../../grading/snapshot.ts'
import { zoneOfNode } from './zone-clients.ts'

/**
 * The kube-proxies know what a step is about. Kubernetes' version skew policy allows no kube-proxy
 * newer than the API server, so the API server of the cluster's own version knows it, too.
 * @throws OutOfReach if the cluster's own version does not, Failure if only another kube-proxy was
 * started
 */
export function requireKnown(
  { nodes, snapshot }: CheckContext,
  { field, since, has }: { field: string; since: string; has(features: Features): boolean },
): void {
  const without = nodes.find((node) => !has(featuresOn(node)))
  if (!without) return
  const version = kubeProxyVersionOf(without)
  const own = snapshot.find('Node', '', without.name)?.status?.nodeInfo?.kubeletVersion ?? ''
  if (!isKnownIn(own, has))
    throw new OutOfReach(`kube-proxy ${version} does not know ${field}, which is since ${since}`)
  fail({
    node: without.name,
    inspect: 'kubectl -n kube-system get daemonset kube-proxy -o wide',
    expected: `a kube-proxy that knows ${field}, ${since} or newer`,
    actual: version,
    hint: "The cluster's own kube-proxy does:",
    next: 'make iptables KUBE_PROXY_VERSION=own',
  })
}

function isKnownIn(version: string, has: (features: Features) => boolean): boolean {
  try {
    return has(featuresOf(version))
  } catch (error) {
    if (error instanceof VersionError) return false
    throw error
  }
}

/**
 * The Service web has one of these values, with the internal policy Cluster, under which alone it
 * has an effect.
 */
export function expectDistribution(
  { snapshot }: CheckContext,
  { name, service }: WebService,
  values: readonly (string | undefined)[],
): void {
  const [value] = values
  const found = snapshot.find('Service', WEB_NAMESPACE, name)?.spec?.trafficDistribution
  const patch = JSON.stringify({ spec: { trafficDistribution: value ?? null } })
  expectThat(values.includes(found as string | undefined), {
    inspect: `kubectl get service ${name} -o jsonpath='{.spec.trafficDistribution}'`,
    expected: value
      ? `trafficDistribution: ${value} on ${name}`
      : `no trafficDistribution on ${name}`,
    actual: found === undefined ? 'the field is not set' : `trafficDistribution: ${found}`,
    next: `kubectl patch service ${name} -p '${patch}'`,
  })
  expectInternalPolicy(service, 'Cluster')
}

/** The Service has this internalTrafficPolicy. */
export function expectInternalPolicy(
  { name, internalTrafficPolicy }: WebService['service'],
  wanted: 'Cluster' | 'Local',
): void {
  const patch = JSON.stringify({ spec: { internalTrafficPolicy: wanted } })
  expectThat(internalTrafficPolicy === wanted, {
    inspect: `kubectl get service ${name} -o jsonpath='{.spec.internalTrafficPolicy}'`,
    expected: `internalTrafficPolicy: ${wanted} on ${name}`,
    actual: internalTrafficPolicy,
    next: `kubectl patch service ${name} -p '${patch}'`,
  })
}

/** The ready endpoints of web, as its EndpointSlices list them. */
export const endpointsOfWeb = ({ snapshot }: CheckContext, service: WebService) =>
  objectsOf(snapshot)
    .endpointSlices.filter(
      ({ namespace, serviceName }) => namespace === WEB_NAMESPACE && serviceName === service.name,
    )
    .flatMap(({ endpoints }) => endpoints)
    .filter(({ ready, terminating }) => ready && !terminating)

/** Every ready endpoint is meant for the zone of its node, and if `withNode` for its node. */
export function expectHints(context: CheckContext, service: WebService, withNode: boolean): void {
  const { name } = service
  for (const endpoint of endpointsOfWeb(context, service)) {
    const { addresses, nodeName = '', zoneHints, nodeHints } = endpoint
    const zone = zoneOfNode(context.snapshot, nodeName)
    const isRight = zoneHints.join() === zone && nodeHints.join() === (withNode ? nodeName : '')
    expectThat(isRight, {
      inspect: `kubectl get endpointslices -l kubernetes.io/service-name=${name} -o yaml`,
      expected: `hints for ${withNode ? `${nodeName} and ` : ''}${zone} at the endpoint ${addresses[0]}`,
      actual: [...nodeHints, ...zoneHints].join(' and ') || 'no hints',
      why: "The EndpointSlice controller writes the hints. It needs the zone of the endpoint's node, from the label of the Node.",
    })
  }
}
