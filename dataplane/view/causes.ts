/** Why an entry of a node exists: the field of the API object from which kube-proxy made it. */
export interface Cause {
  /** `namespace/name` of the Service; absent for entries that kube-proxy makes without any. */
  service?: string
  /** `10.244.1.6:80`, if the entry exists because of one endpoint. */
  endpoint?: string
  /** Such as `Service default/web` or `EndpointSlice default/web-x7k2p`. */
  object: string
  /** Such as `spec.ports[0].nodePort`. */
  field: string
  /** One sentence. */
  reason: string
}
