import { parseIpsetSave } from '../../dataplane/ipset-save.ts'
import { parseIptablesSave } from '../../dataplane/iptables-save.ts'
import { parseIpvsadmSave } from '../../dataplane/ipvsadm-save.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { parsePacket, type Trace, tracePacket } from '../../dataplane/trace.ts'

/**
 * A node with the rules of a test (policies as `:CHAIN DROP [0:0]`), an uplink, a Pod bridge and
 * kube-ipvs0.
 */
export function node(
  rules: { nat?: string[]; filter?: string[]; mangle?: string[]; raw?: string[] },
  ipvs = '',
  ipsets = '',
): NodeState {
  const text = Object.entries(rules).flatMap(([table, lines]) => {
    const chains = new Set(['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'])
    const policies = lines.filter((line) => line.startsWith(':'))
    const builtIn = [...chains].filter(
      (name) => !policies.some((line) => line.startsWith(`:${name} `)),
    )
    return [
      `*${table}`,
      ...builtIn.map((name) => `:${name} ACCEPT [0:0]`),
      ...policies,
      ...lines.filter((line) => !line.startsWith(':')),
      'COMMIT',
    ]
  })
  const link = (name: string, address: string, prefixLength: number, flags: string[] = []) => {
    return {
      name,
      flags,
      operstate: 'UP',
      addresses: [{ family: 'inet' as const, address, prefixLength }],
    }
  }
  return {
    iptables: parseIptablesSave(text.join('\n')),
    ipsets: parseIpsetSave(ipsets),
    virtualServers: parseIpvsadmSave(ipvs),
    links: [
      link('lo', '127.0.0.1', 8, ['LOOPBACK']),
      link('eth0', '172.18.0.3', 16),
      link('cni0', '10.244.1.1', 24),
      link('kube-ipvs0', '10.96.0.1', 32, ['NOARP']),
    ],
  }
}

/** Traces a packet given as on the command line. */
export const trace = (state: NodeState, from: string, to: string): Trace =>
  tracePacket(state, parsePacket(from, to))

export const pod = 'pod:10.244.1.9'
export const external = 'external:203.0.113.9'
