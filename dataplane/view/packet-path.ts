import type { Hook } from '../trace/step.ts'

/** The path of one packet through a node, to be drawn. */
export interface PacketPath {
  /** `10.244.1.7 → 10.96.0.10:53/udp` */
  packet: string
  node: string
  mode: string
  /** False if the rules were predicted for a mode in which the node is not. */
  real: boolean
  /** The five hooks in the order of the drawing; `passed` in the order of the packet. */
  passed: Hook[]
  hooks: PathHook[]
  ends: PathEnd[]
  /** Where it is stopped, in words: the rule, the chain and the consequence for the sender. */
  stop?: { hook: Hook; table: string; chain: string; rule: string; words: string }
  /** The drawing of the slides for this path: an SVG element in wide and tall form, with a text alternative. */
  drawing: { wide: string; tall: string; label: string }
}

export interface PathHook {
  hook: Hook
  actions: PathAction[]
}

/** What one chain, set or virtual server did to the packet. */
export interface PathAction {
  table: string
  /** The chains from the hook's to the one that decided. */
  chains: string[]
  text: string
  probability: number
  /** Ids of the entries of the node that did it (holdings.ts). */
  entries: string[]
  /** Packets that the kernel counted at this rule while a real packet was sent; absent before. */
  counted?: number
}

export interface PathEnd {
  to?: string
  verdict: 'dnat' | 'accept' | 'reject' | 'drop'
  probability: number
  masquerade: boolean
  /** How many of the packets that were really sent ended here, where it is known. */
  counted?: number
}
