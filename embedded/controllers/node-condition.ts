import type { Node } from './resources.ts'

/** True when the node's kubelet last said that it is Ready. */
export const isReady = (node: Node): boolean =>
  node.status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'True'
