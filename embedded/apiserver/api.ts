// The API for controllers, scheduler, kubelet and kube-proxy of the embedded cluster: in process, synchronous, with
// the same admission, defaulting, validation and conflicts as over HTTPS.

export interface OwnerReference {
  apiVersion: string
  kind: string
  name: string
  uid: string
  controller?: boolean
  blockOwnerDeletion?: boolean
}

export interface ObjectMeta {
  name: string
  namespace?: string
  uid: string
  resourceVersion: string
  generation?: number
  creationTimestamp: string
  deletionTimestamp?: string
  deletionGracePeriodSeconds?: number
  labels?: Record<string, string>
  annotations?: Record<string, string>
  ownerReferences?: OwnerReference[]
  finalizers?: string[]
  generateName?: string
}

/** Any stored object. Callers type further fields themselves (client-node's V1Pod and so on fit). */
export interface KubeObject {
  apiVersion: string
  kind: string
  metadata: ObjectMeta
}

/** A resource by its plural name; unique here across groups (`pods`, `deployments`, `endpointslices`, …). */
export type ResourceName = string

/** An object to be created: metadata may be partial. */
export type Draft = { apiVersion?: string; kind?: string; metadata?: Partial<ObjectMeta> } & Record<string, unknown>

export type WatchHandler<T> = (type: 'ADDED' | 'MODIFIED' | 'DELETED', object: T) => void

export interface DeleteOptions {
  gracePeriodSeconds?: number
  propagationPolicy?: 'Background' | 'Foreground' | 'Orphan'
  /** The `uid` or `resourceVersion` that the object must have. */
  preconditions?: object
}

export interface Api {
  /** The stored object (never mutate it: structuredClone first), or undefined. `namespace` is undefined for cluster-scoped kinds. */
  get<T extends KubeObject = KubeObject>(
    resource: ResourceName,
    namespace: string | undefined,
    name: string,
  ): T | undefined
  list<T extends KubeObject = KubeObject>(
    resource: ResourceName,
    options?: { namespace?: string; labelSelector?: string; fieldSelector?: string },
  ): T[]
  /** Throws StatusError (status-error.ts): 409 AlreadyExists, 422 Invalid, 404 when the namespace is missing. */
  create<T extends KubeObject = KubeObject>(resource: ResourceName, namespace: string | undefined, object: Draft): T
  /** Whole-object replace; a stale metadata.resourceVersion throws 409 Conflict. */
  update<T extends KubeObject = KubeObject>(resource: ResourceName, object: T, subresource?: 'status'): T
  /** JSON merge patch (RFC 7386). */
  patch<T extends KubeObject = KubeObject>(
    resource: ResourceName,
    namespace: string | undefined,
    name: string,
    patch: Record<string, unknown>,
    subresource?: 'status',
  ): T
  /**
   * Graceful for Pods bound to a node: sets deletionTimestamp and waits for the kubelet, which deletes again with
   * `gracePeriodSeconds: 0`. Objects with finalizers wait for them. Missing objects throw 404.
   */
  delete(resource: ResourceName, namespace: string | undefined, name: string, options?: DeleteOptions): void
  /**
   * First an ADDED for every present object, then each change, in order. Returns a function that ends the watch.
   */
  watch<T extends KubeObject = KubeObject>(resource: ResourceName, handler: WatchHandler<T>): () => void
}
