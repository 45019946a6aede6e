import { printEndpoint } from '../../ip-address.ts'
import type { Chain, Ruleset } from '../../iptables-save.ts'
import { type OriginRecorder, type Origins, outsideAddresses, WHOLE_PORT } from '../origins.ts'
import type { ProxierInput } from '../proxier.ts'
import { commented, toAddress, toPort } from '../rule-text.ts'
import { ruleset, TableBuilder } from '../ruleset-builder.ts'
import type { ServicePort } from '../service-ports.ts'

const isUnspecified = (address: string): boolean => address === '0.0.0.0' || address === '::'

/**
 * Every Service port with the port of the listener that kube-proxy opened for it. The kernel
 * assigns ephemeral ports unless the configuration sets portRange, so the numbers on a real node
 * differ: only their use is predicted.
 */
export function userspaceListeners({
  ports,
  config,
}: ProxierInput): { port: ServicePort; proxyPort: number }[] {
  const first = Number(config.portRange.split('-')[0] || 32768)
  return ports.map((port, index) => ({ port, proxyPort: first + index }))
}

function writePortal(
  nat: TableBuilder,
  filter: TableBuilder,
  proxier: ProxierInput,
  port: ServicePort,
  proxyPort: number,
): void {
  const listens = proxier.config.bindAddress
  const translate = (address: string) =>
    `-j DNAT --to-destination ${printEndpoint(address, proxyPort)}`
  const toListener = isUnspecified(listens)
    ? `-j REDIRECT --to-ports ${proxyPort}`
    : translate(listens)
  const fromHost = translate(isUnspecified(listens) ? proxier.nodeIP : listens)
  const to = (address: string) => toAddress(address, port, port.name)

  // A load balancer's address is treated like a ClusterIP; only externalIPs are handled
  // differently.
  const outside = outsideAddresses(port)
  const portals: { address: string; from: Origins }[] = [
    { address: port.clusterIP, from: WHOLE_PORT },
    ...outside
      .filter(({ origin }) => origin.list === 'loadBalancerIPs')
      .map(({ address, origin }) => ({ address, from: [origin] })),
  ]
  for (const { address, from } of portals) {
    nat.add('KUBE-PORTALS-CONTAINER', `${to(address)}${toListener}`, from)
    nat.add('KUBE-PORTALS-HOST', `${to(address)}${fromHost}`, from)
  }
  for (const { address, origin } of outside) {
    if (origin.list !== 'externalIPs') continue
    const bridged = `${to(address)}-m physdev ! --physdev-is-in `
    const local = `${to(address)}-m addrtype --dst-type LOCAL `
    nat.add('KUBE-PORTALS-CONTAINER', `${bridged}${toListener}`, [origin])
    nat.add('KUBE-PORTALS-CONTAINER', `${local}${toListener}`, [origin])
    nat.add('KUBE-PORTALS-HOST', `${local}${fromHost}`, [origin])
  }
  if (port.nodePort === 0) return
  const nodePort = toPort(port.protocol, port.name, port.nodePort)
  nat.add('KUBE-NODEPORT-CONTAINER', `${nodePort}${toListener}`, ['nodePort'])
  nat.add('KUBE-NODEPORT-HOST', `${nodePort}${fromHost}`, ['nodePort'])
  filter.add(
    'KUBE-NODEPORT-NON-LOCAL',
    `${toPort(port.protocol, port.name, proxyPort)}-m state --state NEW -j ACCEPT`,
    ['nodePort'],
  )
}

/**
 * The rules of userspace mode (pkg/proxy/userspace of 1.20): every Service port, with or without
 * endpoints, leads to a listener of kube-proxy itself, which selects endpoints in turn.
 */
export function userspaceRuleset(proxier: ProxierInput, origins?: OriginRecorder): Ruleset {
  const nat = new TableBuilder('nat', origins)
  const filter = new TableBuilder('filter', origins)
  for (const [from, where] of [
    ['PREROUTING', 'CONTAINER'],
    ['OUTPUT', 'HOST'],
  ] as const) {
    const [portals, nodePorts] = [`KUBE-PORTALS-${where}`, `KUBE-NODEPORT-${where}`]
    for (const chain of [portals, nodePorts]) nat.chain(chain)
    const first = commented('handle ClusterIPs; NOTE: this must be before the NodePort rules')
    const last = commented(
      'handle service NodePorts; NOTE: this must be the last rule in the chain',
    )
    nat.add(from, `${first}-j ${portals}`)
    nat.add(from, `-m addrtype --dst-type LOCAL ${last}-j ${nodePorts}`)
  }
  filter.jump('INPUT', 'KUBE-NODEPORT-NON-LOCAL', 'Ensure that non-local NodePort traffic can flow')
  for (const { port, proxyPort } of userspaceListeners(proxier)) {
    origins?.begin(port)
    writePortal(nat, filter, proxier, port, proxyPort)
  }
  return ruleset({ filter, nat })
}

/** The port of the listener that a rule leads to, or lets in from other nodes. */
const LISTENER = /(?<= --to-ports | --to-destination \S+:)\d+$|(?<= --dport )\d+(?= -m state )/

/**
 * The predicted ruleset with the ports that a node's kube-proxy assigned to its listeners, as the
 * rules of KUBE-PORTALS-CONTAINER show them. A Service port without such a rule, or with the
 * listener of another one, keeps its predicted port and therefore differs.
 */
export function withAssignedListeners(expected: Ruleset, actual: Ruleset): Ruleset {
  const portals = (rules: Ruleset) =>
    (rules.get('nat')?.get('KUBE-PORTALS-CONTAINER')?.rules ?? []).map(({ spec }) => {
      return { packets: spec.replace(LISTENER, ''), port: LISTENER.exec(spec)?.[0] ?? '' }
    })
  const found = new Map(portals(actual).map(({ packets, port }) => [packets, port]))
  const assigned = new Map(portals(expected).map(({ packets, port }) => [port, found.get(packets)]))
  const uses = new Map<string | undefined, number>()
  for (const listener of assigned.values()) uses.set(listener, (uses.get(listener) ?? 0) + 1)
  const rename = (spec: string) =>
    spec.replace(LISTENER, (port) => {
      const listener = assigned.get(port)
      return listener && uses.get(listener) === 1 ? listener : port
    })
  const renamed = (chain: Chain): Chain => ({
    ...chain,
    rules: chain.rules.map((rule) => ({ ...rule, spec: rename(rule.spec) })),
  })
  const tables = [...expected].map(([name, table]) => {
    return [name, new Map([...table].map(([chain, one]) => [chain, renamed(one)]))] as const
  })
  return new Map(tables)
}
