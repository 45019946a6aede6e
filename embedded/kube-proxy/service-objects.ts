import { readyEndpoints } from '../../dataplane/kube-proxy/endpoint-categories.ts'
import { trackEndpoints } from '../../dataplane/kube-proxy/endpoints.ts'
import { type ServicePort, servicePorts } from '../../dataplane/kube-proxy/service-ports.ts'
import { featuresOf } from '../../dataplane/kube-proxy/versions.ts'
import { type ClusterObjects, leftOutObjects, readObjects } from '../../dataplane/objects.ts'
import type { Api, KubeObject } from '../apiserver/api.ts'

type Listener = (change: { resource: string; object: KubeObject }) => void

const resources = ['nodes', 'services', 'endpointslices'] as const

/**
 * Services, EndpointSlices and Nodes for all kube-proxies of a cluster: watched once and parsed once per change,
 * independent of the number of nodes.
 */
export class ServiceObjects {
  private readonly held = new Map<string, KubeObject>()
  private readonly listeners = new Set<Listener>()
  private read: { objects: ClusterObjects; leftOut: readonly string[] } | undefined
  private ends: (() => void)[] = []

  private static readonly byApi = new WeakMap<Api, ServiceObjects>()

  static of(api: Api): ServiceObjects {
    const known = ServiceObjects.byApi.get(api)
    if (known) return known
    const fresh = new ServiceObjects()
    ServiceObjects.byApi.set(api, fresh)
    return fresh
  }

  /**
   * Calls the listener for every later change; the present objects are in `current()`. Returns a function that
   * ends the subscription.
   */
  subscribe(api: Api, listener: Listener): () => void {
    if (this.listeners.size === 0) this.begin(api)
    this.listeners.add(listener)
    return () => {
      this.listeners.delete(listener)
      if (this.listeners.size > 0) return
      for (const end of this.ends.splice(0)) end()
      this.held.clear()
    }
  }

  /** The current valid objects. */
  current(): ClusterObjects {
    return this.readHeld().objects
  }

  /** One sentence for each invalid object. */
  leftOut(): readonly string[] {
    return this.readHeld().leftOut
  }

  private readHeld() {
    if (this.read) return this.read
    const { objects, faults } = readObjects({ apiVersion: 'v1', kind: 'List', items: [...this.held.values()] })
    this.read = { objects, leftOut: leftOutObjects(faults) }
    return this.read
  }

  private begin(api: Api): void {
    this.ends = resources.map((resource) =>
      api.watch(resource, (type, object) => {
        const key = `${resource} ${object.metadata.uid}`
        if (type === 'DELETED') this.held.delete(key)
        else this.held.set(key, object)
        this.read = undefined
        for (const listener of this.listeners) listener({ resource, object })
      }),
    )
  }
}

/** A Service with a health check port on this node. */
export interface HealthCheck {
  port: number
  namespace: string
  name: string
  /** Ready endpoints of this node, counted by address. */
  localEndpoints: number
}

/** The health check ports of one node's kube-proxy, and the valid destinations of UDP flows. */
export interface ServiceBackends {
  healthChecks: HealthCheck[]
  /** `address:port`, or `:port` for a node port, to the addresses of the endpoints behind it. UDP only. */
  udp: Map<string, Set<string>>
}

const serviceName = (port: ServicePort) => /^([^/]*)\/([^:]*)/.exec(port.name)?.slice(1) ?? []

/** Computes them for one node and version. */
export function serviceBackends(objects: ClusterObjects, node: string, version: string): ServiceBackends {
  const features = featuresOf(version)
  const ports = servicePorts(objects, trackEndpoints(objects, node, 'ipv4', features), 'ipv4', features)
  const local = new Map<number, Set<string>>()
  const checks = new Map<number, HealthCheck>()
  const udp = new Map<string, Set<string>>()
  for (const port of ports) {
    if (port.healthCheckNodePort !== 0) {
      const [namespace = '', name = ''] = serviceName(port)
      const here = local.get(port.healthCheckNodePort) ?? new Set()
      for (const { ip, isLocal } of readyEndpoints(port)) if (isLocal) here.add(ip)
      local.set(port.healthCheckNodePort, here)
      checks.set(port.healthCheckNodePort, {
        port: port.healthCheckNodePort,
        namespace,
        name,
        localEndpoints: here.size,
      })
    }
    if (port.protocol === 'udp') addUdp(port, udp)
  }
  return { healthChecks: [...checks.values()], udp }
}

function addUdp(port: ServicePort, udp: Map<string, Set<string>>): void {
  const usable = port.endpoints.filter(({ ready, serving }) => ready || serving).map(({ ip }) => ip)
  for (const address of [port.clusterIP, ...port.externalIPs, ...port.loadBalancerIPs])
    udp.set(`${address}:${port.port}`, new Set(usable))
  if (port.nodePort !== 0) udp.set(`:${port.nodePort}`, new Set(usable))
}
