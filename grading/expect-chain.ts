// Assertions about one chain, for checks.

import type { Rule } from '../dataplane/iptables-save.ts'
import { targetOf } from '../dataplane/rule.ts'
import { type Advice, inChain, PredictedPart, restoredBySync } from './difference-report.ts'
import { expectOnNode, onNode, type Words } from './failure.ts'
import { modeOf, type NodeView, stateOf } from './snapshot.ts'

/**
 * Chains whose owners deliberately put their jumps on top, and which let Service packets pass: network plugins, CNI's portmap
 * (with its own marks), firewalld, libvirt, Tailscale (with its own mark).
 */
const MAY_PRECEDE = /^(?:cali-|CILIUM_|CNI-HOSTPORT-|(?:PREROUTING|OUTPUT|POSTROUTING)_|LIBVIRT_|ts-)/
/** How Docker and others masquerade their own bridge: only packets that leave that network. */
const OWN_BRIDGE = /^-s \S+ ! -o \S+ -j MASQUERADE$/

const MISSING_JUMP = {
  hint: 'kube-proxy inserts its jumps when it starts, and in IPVS mode at each sync, after 30 seconds at the latest:',
  next: 'make kube-proxy-logs',
}

/** kube-proxy looks whether its jump is there, not where. */
const movedJump = (node: string, chain: string, spec: string) => ({
  hint: 'kube-proxy leaves a jump that was moved where it is, and inserts one that is missing on top. Delete it:',
  next: onNode(node, `iptables -t nat -D ${chain} ${spec}`),
})

/**
 * Fails unless the first jump of a built-in nat chain goes to `target`, so that no foreign rule handles the packet before.
 */
function mustJumpFirst(nodes: readonly NodeView[], chain: string, target: string): void {
  for (const node of nodes) {
    const { name } = node
    const rules = stateOf(node).iptables.get('nat')?.get(chain)?.rules ?? []
    const first = rules.find(({ spec }) => !MAY_PRECEDE.test(targetOf(spec) ?? '') && !OWN_BRIDGE.test(spec))
    const place = rules.findIndex(({ spec }) => targetOf(spec) === target)
    expectOnNode(name, `iptables -t nat -nvL ${chain}`, first && targetOf(first.spec) === target, {
      expected: `${target} as the first jump of ${chain}`,
      actual:
        place === -1 ? `${chain} has no jump to ${target}` : `the jump to ${target} is rule ${place + 1} of ${chain}`,
      ...(place === -1 ? MISSING_JUMP : movedJump(name, chain, rules[place]?.spec ?? '')),
      differences: [
        place === -1
          ? { kind: 'missing', text: `${chain} has no jump to ${target}`, expected: `-A ${chain} … -j ${target}` }
          : {
              kind: 'wrong',
              text: 'another rule matches the packet first',
              expected: `-A ${chain} ${rules[place]?.spec ?? ''}`,
              actual: `-A ${chain} ${rules[0]?.spec ?? ''}`,
            },
      ],
    })
  }
}

/** One chain on every node. */
export class ChainExpectation extends PredictedPart {
  readonly #table: string
  readonly #chain: string

  constructor(nodes: readonly NodeView[], place: string) {
    const [table = '', chain = ''] = place.split(' ')
    super(nodes, inChain(place), `iptables -t ${table} -nvL ${chain}`)
    this.#table = table
    this.#chain = chain
  }

  /** A packet reaches this jump before any other rule that could handle it. */
  jumpsFirstTo(target: string): void {
    mustJumpFirst(this.nodes, this.#chain, target)
  }

  /** The jump to this target is its last rule, after all others. */
  jumpsLastTo(target: string, words: Words = {}): void {
    for (const { node, rules } of this.#everywhere()) {
      const place = rules.findIndex(({ spec }) => targetOf(spec) === target)
      const isLast = place !== -1 && place === rules.length - 1
      const kind = place === -1 ? 'missing' : 'wrong'
      expectOnNode(node, `${this.#list} | tail -n 2`, isLast, {
        expected: `the jump to ${target} as the last rule of ${this.#chain}`,
        actual: place === -1 ? 'no such jump' : `it is rule ${place + 1} of ${rules.length}`,
        differences: [
          { kind, text: `the jump to ${target} is not last`, expected: `-A ${this.#chain} … -j ${target}` },
        ],
        ...words,
      })
    }
  }

  /** One of its rules contains this text, as printed by `iptables -S`; `missing` is the sentence if there is none. */
  hasRule(spec: string, { missing, ...words }: Words & { missing: string }): void {
    const expected = `-A ${this.#chain} … ${spec} …`
    for (const { node, rules } of this.#everywhere()) {
      const differences = [{ kind: 'missing', text: missing, expected } as const]
      const told = { expected, actual: `no rule with ${spec}`, differences, ...this.#restored(), ...words }
      expectOnNode(
        node,
        this.#list,
        rules.some((rule) => rule.spec.includes(spec)),
        told,
      )
    }
  }

  /** Its first rule has this target, and contains this text. */
  beginsWith(target: string, spec: string, words: Words = {}): void {
    for (const { node, rules } of this.#everywhere()) {
      const [first] = rules
      const isMeant = first && targetOf(first.spec) === target && first.spec.includes(spec)
      const actual = first ? `-A ${this.#chain} ${first.spec}` : 'an empty chain'
      const expected = `-A ${this.#chain} -j ${target} ${spec}`
      expectOnNode(node, this.#list, isMeant, { expected, actual, ...this.#restored(), ...words })
    }
  }

  /** Node by node, so that a failure on one node is reported even if another can't be read. */
  *#everywhere(): Generator<{ node: string; rules: readonly Rule[] }> {
    for (const node of this.nodes)
      yield { node: node.name, rules: stateOf(node).iptables.get(this.#table)?.get(this.#chain)?.rules ?? [] }
  }

  /** What is missing in a chain of kube-proxy's own comes back with its mode; other chains are not its matter. */
  #restored(): Partial<Advice> {
    const mode = this.nodes[0] && modeOf(this.nodes[0])
    const isOwn = this.#chain.startsWith('KUBE-') && (mode === 'ipvs' || mode === 'iptables')
    return isOwn ? restoredBySync(mode) : {}
  }

  get #list(): string {
    return `iptables -t ${this.#table} -S ${this.#chain}`
  }
}
