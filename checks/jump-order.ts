import { targetOf } from '../dataplane/rule-text.ts'
import { onNode } from './difference-report.ts'
import { fail } from './failure.ts'
import type { NodeView } from './snapshot.ts'

/** Network plugins that put their own jumps on top on purpose, and let Service packets pass. */
const MAY_STAND_ABOVE = /^(?:cali-|CILIUM_)/

/**
 * Fails unless the first jump of a built-in nat chain goes to `target`, so that no rule of somebody else's takes the packet
 * before.
 */
export function mustJumpFirst(nodes: readonly NodeView[], chain: string, target: string): void {
  for (const { name, state } of nodes) {
    const rules = state.iptables.get('nat')?.get(chain)?.rules ?? []
    const first = rules.find(({ spec }) => !MAY_STAND_ABOVE.test(targetOf(spec) ?? ''))
    if (first && targetOf(first.spec) === target) continue
    const place = rules.findIndex(({ spec }) => targetOf(spec) === target)
    fail({
      node: name,
      look: onNode(name, `iptables -t nat -nvL ${chain}`),
      expected: `${target} as the first jump of ${chain}`,
      actual:
        place === -1 ? `${chain} has no jump to ${target}` : `the jump to ${target} is rule ${place + 1} of ${chain}`,
      differences: [
        place === -1
          ? { kind: 'missing', text: `${chain} has no jump to ${target}`, expected: `-A ${chain} … -j ${target}` }
          : {
              kind: 'wrong',
              text: 'another rule sees the packet first',
              expected: `-A ${chain} ${rules[place]?.spec ?? ''}`,
              actual: `-A ${chain} ${rules[0]?.spec ?? ''}`,
            },
      ],
    })
  }
}
