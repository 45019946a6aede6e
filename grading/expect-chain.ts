// Assertions about one chain, for checks.

import type { Rule } from '../dataplane/iptables-save.ts'
import { targetOf } from '../dataplane/rule.ts'
import { restoredBySync } from './advice.ts'
import { type FailureText, onNode, ruleInShell } from './failure.ts'
import { inChain, type Mismatch, PredictedPart } from './predicted-part.ts'
import { modeOf, type NodeView, stateOf } from './snapshot.ts'

/**
 * Chains whose owners deliberately put their jumps on top, and which let Service packets pass:
 * network plugins, CNI's portmap (with its own marks), firewalld, libvirt, Tailscale (with its own
 * mark).
 */
const MAY_PRECEDE =
  /^(?:cali-|CILIUM_|CNI-HOSTPORT-|(?:PREROUTING|OUTPUT|POSTROUTING)_|LIBVIRT_|ts-)/
/** How Docker and others masquerade their own bridge: only packets that leave that network. */
const OWN_BRIDGE = /^-s \S+ ! -o \S+ -j MASQUERADE$/

/** One chain on every node. */
export class ChainExpectation extends PredictedPart {
  readonly #table: string
  readonly #chain: string

  /** @param place table and name: `nat KUBE-SERVICES` */
  constructor(nodes: readonly NodeView[], place: string) {
    const [table = '', chain = ''] = place.split(' ')
    super(nodes, inChain(place), `iptables -t ${table} -nvL ${chain}`)
    this.#table = table
    this.#chain = chain
  }

  /** A packet reaches this jump before any other rule that could handle it. */
  jumpsFirstTo(target: string): void {
    const chain = this.#chain
    const mismatchOf = (node: NodeView): Mismatch | undefined => {
      const rules = this.#rulesOn(node)
      const first = rules.find(
        ({ spec }) => !MAY_PRECEDE.test(targetOf(spec) ?? '') && !OWN_BRIDGE.test(spec),
      )
      if (first && targetOf(first.spec) === target) return undefined
      const place = rules.findIndex(({ spec }) => targetOf(spec) === target)
      const { spec = '' } = rules[place] ?? {}
      const text = `${chain} has no jump to ${target}`
      if (place === -1)
        return {
          actual: text,
          hint: 'kube-proxy inserts its jumps when it starts and in its full sync, which is hourly in iptables mode and in some versions of IPVS mode:',
          next: 'make kube-proxy-logs',
          differences: [{ kind: 'missing', text, expected: `-A ${chain} … -j ${target}` }],
        }
      return {
        actual: `the jump to ${target} is rule ${place + 1} of ${chain}`,
        // kube-proxy looks whether its jump is there, not where.
        hint: 'kube-proxy leaves a jump that was moved where it is, and inserts one that is missing on top. Delete it:',
        next: onNode(node.name, `iptables -t ${this.#table} -D ${chain} ${ruleInShell(spec)}`),
        differences: [
          {
            kind: 'wrong',
            text: 'another rule matches the packet first',
            expected: `-A ${chain} ${spec}`,
            actual: `-A ${chain} ${rules[0]?.spec ?? ''}`,
          },
        ],
      }
    }
    this.each(this.inspect, `${target} as the first jump of ${chain}`, mismatchOf)
  }

  /**
   * One of its rules contains this text, as printed by `iptables -S`; `missing` is the sentence if
   * there is none.
   */
  hasRule(spec: string, { missing, ...texts }: FailureText & { missing: string }): void {
    const expected = `-A ${this.#chain} … ${spec} …`
    const mismatchOf = (node: NodeView): Mismatch | undefined =>
      this.#rulesOn(node).some((rule) => rule.spec.includes(spec))
        ? undefined
        : {
            actual: `no rule with ${spec}`,
            differences: [{ kind: 'missing', text: missing, expected }],
            ...this.#restored(),
          }
    this.each(`iptables -t ${this.#table} -S ${this.#chain}`, expected, mismatchOf, texts)
  }

  #rulesOn(node: NodeView): readonly Rule[] {
    return stateOf(node).iptables.get(this.#table)?.get(this.#chain)?.rules ?? []
  }

  /**
   * What is missing in a chain of kube-proxy's own comes back with its mode; other chains are not
   * its matter.
   */
  #restored(): Pick<FailureText, 'hint' | 'next'> {
    const mode = this.nodes[0] && modeOf(this.nodes[0])
    const isOwn = this.#chain.startsWith('KUBE-') && (mode === 'ipvs' || mode === 'iptables')
    return isOwn ? restoredBySync(mode) : {}
  }
}
