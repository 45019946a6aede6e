/** Where an incident plays: decided when it begins, the same for its report, its probes and its fixes. */
export interface Scene {
  /** Names of the nodes, control plane first. */
  nodes: string[]
  /** Their addresses, in the same order. */
  nodeAddresses: string[]
  /** The node that the Pod customer runs on. */
  node: string
  /** Address of the Pod customer. */
  customer: string
  /** ClusterIP of the Service shop. */
  shop: string
  /** Node port of the Service shop-np. */
  nodePort: number
  /** What the incident itself wrote down. */
  facts: Record<string, string>
}

/** A node's address. Throws Error for a node that the scene does not have. */
export function addressOf({ nodes, nodeAddresses }: Scene, node: string): string {
  const address = nodeAddresses[nodes.indexOf(node)]
  if (address === undefined) throw new Error(`the incident knows no node "${node}"`)
  return address
}

/** A fact that the incident wrote down when it began. Throws Error when it did not. */
export function factOf({ facts }: Scene, name: string): string {
  const fact = facts[name]
  if (fact === undefined) throw new Error(`the incident did not write down its "${name}"`)
  return fact
}
