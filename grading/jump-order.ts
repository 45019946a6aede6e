import { targetOf } from '../dataplane/rule-text.ts'
import { onNode } from './difference-report.ts'
import { fail } from './failure.ts'
import type { NodeView } from './snapshot.ts'

/**
 * Chains whose owners insert their jumps first, and which do not affect Service packets: network plugins, CNI's portmap (with
 * its own marks), firewalld, libvirt, Tailscale (with its own mark).
 */
const MAY_PRECEDE = /^(?:cali-|CILIUM_|CNI-HOSTPORT-|(?:PREROUTING|OUTPUT|POSTROUTING)_|LIBVIRT_|ts-)/
/** The masquerade rules of Docker and others for their own bridge: they match only packets that leave that network. */
const OWN_BRIDGE = /^-s \S+ ! -o \S+ -j MASQUERADE$/

const MISSING_JUMP = {
  hint: 'kube-proxy inserts its jumps when it starts, and in IPVS mode at each sync, after 30 seconds at the latest:',
  next: 'make kube-proxy-logs',
}

/** kube-proxy checks only the existence of its jump, not its position. */
const movedJump = (node: string, chain: string, spec: string) => ({
  hint: 'kube-proxy leaves a jump that was moved where it is, and inserts one that is missing on top. Delete it:',
  next: onNode(node, `iptables -t nat -D ${chain} ${spec}`),
})

/**
 * Fails unless the first jump of a built-in nat chain goes to `target`, so that no foreign rule handles the packet before.
 */
export function mustJumpFirst(nodes: readonly NodeView[], chain: string, target: string): void {
  for (const { name, state } of nodes) {
    const rules = state.iptables.get('nat')?.get(chain)?.rules ?? []
    const first = rules.find(({ spec }) => !MAY_PRECEDE.test(targetOf(spec) ?? '') && !OWN_BRIDGE.test(spec))
    if (first && targetOf(first.spec) === target) continue
    const place = rules.findIndex(({ spec }) => targetOf(spec) === target)
    fail({
      node: name,
      look: onNode(name, `iptables -t nat -nvL ${chain}`),
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
