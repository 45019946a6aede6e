import type { Cluster } from '../cluster/driver.ts'
import { UserError } from '../host/main.ts'
import { hasOutside, OUTSIDE } from '../host/outside.ts'

/** What `NODE` names: a node, or the machine outside the cluster. Throws as chosenNode does. */
export async function chosenMachine(cluster: Cluster): Promise<string> {
  return process.env.NODE === OUTSIDE && hasOutside(cluster) ? OUTSIDE : chosenNode(cluster)
}

/** The node that `NODE` names, or the first worker. Throws with the names there are. */
export async function chosenNode(cluster: Cluster, wish = process.env.NODE): Promise<string> {
  const nodes = await cluster.nodes()
  // npm sets NODE to the path of its own Node.js for everything that it starts.
  const asked = wish?.includes('/') ? undefined : wish
  const node = asked || (nodes.find((name) => !name.endsWith('control-plane')) ?? nodes[0])
  if (node !== undefined && nodes.includes(node)) return node
  throw new UserError(`There is no node "${node}": use NODE= with one of ${nodes.join(', ')}.`)
}
