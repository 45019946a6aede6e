// What `ipset save` prints:  create KUBE-CLUSTER-IP hash:ip,port family inet … / add KUBE-CLUSTER-IP 10.96.0.1,tcp:443

/** One set. `members` hold the text after `add NAME ` in canonical form; `options` what stood in the create line. */
export interface IpSet {
  name: string
  type: string
  options: Record<string, string>
  members: Set<string>
}

/** Sets by name. */
export type IpSets = Map<string, IpSet>
