import type { BalancedAddress } from '../../../embedded/index.ts'
import { type AddressPool, poolOf, secondClientOf } from '../../../host/address-pool.ts'
import { $ } from '../../../host/command.ts'
import { type EngineName, engineReason } from '../engine.ts'

/** The network that kind puts its nodes on. */
const network = 'kind'
const clusterLabel = 'kube-service-labs.load-balancer'
/** Routes to load balancer addresses, and nothing else. */
const table = 100

/** The load balancer container in front of a cluster's nodes. */
export const applianceName = (cluster: string) => `${cluster}-load-balancer`

/**
 * What makes a container a load balancer that leaves packets as they are. It owns each address, so that it answers for it on
 * the network; but TCP, UDP and SCTP to it are looked up in a table of our own first, whose routes lead to the nodes, a
 * connection to one of them (the hash takes ports too). The nodes answer the client directly. Connections from the
 * container itself go the same way, and their answers come from an address it owns, which the kernel must be told to accept.
 * `second` is an address more, so that it can be two clients.
 */
const setUp = (second: string | undefined) => `set -e
cd /proc/sys/net/ipv4
echo 1 >ip_forward
echo 1 >fib_multipath_hash_policy
for name in all default eth0; do
  echo 0 >conf/$name/send_redirects; echo 0 >conf/$name/rp_filter; echo 1 >conf/$name/accept_local
done
for protocol in tcp udp sctp; do ip rule add pref 10 ipproto $protocol lookup ${table}; done
ip rule add pref 100 lookup local
ip rule del pref 0
${second === undefined ? '' : `ip address add ${second}/32 dev eth0`}
exec sleep infinity`

/**
 * Makes the container where there is none, from an image that the engine has already (any with \`ip\`, \`curl\` and \`sh\`: the node
 * image). Throws with the engine's word when it does not start.
 */
export async function ensureAppliance(engine: EngineName, cluster: string, image: string): Promise<void> {
  const name = applianceName(cluster)
  const run = $({ quiet: true, nothrow: true })
  const state = await run`${engine} inspect --format ${'{{.State.Status}}'} ${name}`
  if (state.stdout.trim() === 'running') return
  if (state.exitCode === 0) await run`${engine} rm --force ${name}`
  const options = [
    ...['--detach', '--init', '--name', name, '--hostname', name, '--label', `${clusterLabel}=${cluster}`],
    ...['--network', network, '--privileged', '--restart', 'unless-stopped', '--pull', 'never'],
  ]
  const { exitCode, stderr } =
    await run`${engine} run ${options} --entrypoint sh ${image} -c ${setUp(secondClientOf(await readSubnet(engine)))}`
  if (exitCode !== 0) throw new Error(`the container "${name}" did not start (${engineReason(stderr)})`)
}

export async function removeAppliance(engine: EngineName, cluster: string): Promise<void> {
  await $({ quiet: true, nothrow: true })`${engine} rm --force ${applianceName(cluster)}`
}

/** Runs a script in the container: what it sends comes from outside the cluster. */
export async function inAppliance(engine: EngineName, cluster: string, script: string) {
  const run = $({ quiet: true, nothrow: true, timeout: 30_000, input: script })
  return run`${engine} exec -i ${applianceName(cluster)} sh -s`
}

/** The addresses that Services may be given: near the end of kind's IPv4 network. Throws when there is none. */
export const readPool = async (engine: EngineName): Promise<AddressPool> => poolOf(await readSubnet(engine))

/** kind's IPv4 network. Throws when there is none. */
async function readSubnet(engine: EngineName): Promise<string> {
  const run = $({ quiet: true, nothrow: true })
  const { stdout } = await run`${engine} network inspect ${network}`
  const subnet = /"[Ss]ubnet": "(\d[\d.]+\/\d+)"/.exec(stdout)?.[1]
  if (!subnet) throw new Error(`the network "${network}" of ${engine} has no IPv4 addresses`)
  return subnet
}

/**
 * Lines of shell that turn the addresses that are there into the wanted ones; none for those that stay as they are. A route to
 * several nodes spreads connections over them; without any, packets are refused.
 */
export function routeScript(present: readonly BalancedAddress[], wanted: readonly BalancedAddress[]): string[] {
  const before = new Map(present.map((one) => [one.address, one]))
  const lines: string[] = []
  for (const { address, nodes } of wanted) {
    const old = before.get(address)
    before.delete(address)
    if (old?.nodes.join() === nodes.join()) continue
    const way = nodes.map((node) => `nexthop via ${node}`).join(' ')
    const route =
      nodes.length === 0 ? `unreachable ${address}/32 table ${table}` : `${address}/32 table ${table} ${way}`
    // Another type of route would be added beside the old one, not put in its place.
    if (old && (old.nodes.length === 0) !== (nodes.length === 0))
      lines.push(`ip route flush table ${table} ${address}/32`)
    lines.push(`ip address replace ${address}/32 dev lo`, `ip route replace ${route}`)
  }
  for (const address of before.keys())
    lines.push(`ip address del ${address}/32 dev lo`, `ip route flush table ${table} ${address}/32`)
  return lines
}

/** The addresses that the container has routes for, as `ip -o route show table` prints them: one line each. */
export function readRoutes(printed: string): BalancedAddress[] {
  return printed.split('\n').flatMap((line) => {
    const address = /^(?:unreachable )?(\d+\.\d+\.\d+\.\d+)\b/.exec(line)?.[1]
    const nodes = [...line.matchAll(/\bvia (\d+\.\d+\.\d+\.\d+)/g)].map((match) => match[1] ?? '')
    return address === undefined ? [] : [{ address, nodes }]
  })
}

/** Asks the container which routes it has. */
export async function presentRoutes(engine: EngineName, cluster: string): Promise<BalancedAddress[]> {
  const { stdout } = await inAppliance(engine, cluster, `ip -o route show table ${table}`)
  return readRoutes(stdout)
}
