import { type ClusterObjects, leftOutObjects, readObjects } from '../../dataplane/objects.ts'
import type { Api, KubeObject } from '../apiserver/api.ts'

type Listener = (change: { resource: string; object: KubeObject }) => void

const resources = ['nodes', 'services', 'endpointslices'] as const

/**
 * Services, EndpointSlices and Nodes as all kube-proxies of a cluster see them: watched once and read once for each change,
 * however many nodes there are.
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

  /** Calls the listener for every change from now on; what is there already is in `current()`. Returns what ends it. */
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

  /** The objects of this moment that can be used. */
  current(): ClusterObjects {
    return this.readHeld().objects
  }

  /** One sentence for each object that can't be used. */
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
