import { spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import type { BalancedAddress } from '../../../embedded/index.ts'
import { type AddressPool, poolOf, secondClientOf } from '../../../host/address-pool.ts'
import { $ } from '../../../host/command.ts'
import { kindFolder, projectRoot, START } from '../../../host/layout.ts'
import { endNotedProcess, notedProcess, noteProcess } from '../../../host/live-process.ts'
import { reasonOf } from '../../../host/main.ts'
import { programText } from '../../../host/program-text.ts'
import type { Progress } from '../../../host/progress.ts'
import { scaledMs } from '../../../host/wait.ts'
import { type EngineName, engineCommand, engineReason } from '../engine.ts'
import { inspect, STATE } from '../node-containers.ts'

/** The network that kind puts its nodes on. */
const network = 'kind'
const clusterLabel = 'kube-service-labs.load-balancer'
/** Routing table for load balancer addresses only. */
const table = 100

/** The load balancer container in front of a cluster's nodes. */
export const applianceName = (cluster: string) => `${cluster}-load-balancer`

/**
 * Turns a container into a load balancer that does not change packets. It owns each address, so
 * that it responds to ARP; but TCP, UDP and SCTP packets to it are first looked up in a separate
 * routing table, whose routes lead to the nodes, one node per connection (the hash includes ports).
 * The nodes answer the client directly. Connections from the container itself take the same route,
 * and their answers come from an address it owns, which the kernel must be configured to accept.
 * The second argument is an additional address, so that the container can be two clients.
 */
const setUp = programText('cluster/kind/load-balancer/set-up.sh')

/**
 * Creates the container if there is none, from an image that the engine already has (any with
 * \`ip\`, \`curl\` and \`sh\`: the node image). Throws with the engine's error when it does not
 * start.
 */
async function ensureAppliance(engine: EngineName, cluster: string, image: string): Promise<void> {
  const name = applianceName(cluster)
  const run = engineCommand()
  const state = (await inspect(engine, STATE, [name])).get(name)
  if (state === 'running') return
  if (state !== undefined) await run`${engine} rm --force ${name}`
  const options = [
    '--detach',
    '--init',
    '--name',
    name,
    '--hostname',
    name,
    '--label',
    `${clusterLabel}=${cluster}`,
    '--network',
    network,
    '--privileged',
    '--restart',
    'unless-stopped',
    '--pull',
    'never',
  ]
  const { exitCode, stderr } =
    await run`${engine} run ${options} --entrypoint sh ${image} -c ${setUp} sh ${table} ${secondClientOf(await readSubnet(engine)) ?? ''}`
  if (exitCode !== 0)
    throw new Error(`the container "${name}" did not start (${engineReason(stderr)})`)
}

/** Runs a script in the container, that is, outside the cluster. */
export async function inAppliance(engine: EngineName, cluster: string, script: string) {
  const run = $({ quiet: true, nothrow: true, timeout: scaledMs(30_000), input: script })
  return run`${engine} exec -i ${applianceName(cluster)} sh -s`
}

/**
 * The addresses that Services may be given: near the end of kind's IPv4 network. Throws when there
 * is none.
 */
export const readPool = async (engine: EngineName): Promise<AddressPool> =>
  poolOf(await readSubnet(engine))

/** kind's IPv4 network. Throws when there is none. */
async function readSubnet(engine: EngineName): Promise<string> {
  const { stdout } = await engineCommand()`${engine} network inspect ${network}`
  const subnet = /"[Ss]ubnet": "(\d[\d.]+\/\d+)"/.exec(stdout)?.[1]
  if (!subnet) throw new Error(`the network "${network}" of ${engine} has no IPv4 addresses`)
  return subnet
}

/**
 * Shell commands that change the present addresses into the wanted ones; none for unchanged
 * addresses. A route to several nodes distributes connections over them; without any node, packets
 * are rejected.
 */
export function routeScript(
  present: readonly BalancedAddress[],
  wanted: readonly BalancedAddress[],
): string[] {
  const before = new Map(present.map((one) => [one.address, one]))
  const lines: string[] = []
  for (const { address, nodes } of wanted) {
    const old = before.get(address)
    before.delete(address)
    if (old?.nodes.join() === nodes.join()) continue
    const nextHops = nodes.map((node) => `nexthop via ${node}`).join(' ')
    const route =
      nodes.length === 0
        ? `unreachable ${address}/32 table ${table}`
        : `${address}/32 table ${table} ${nextHops}`
    // `ip route replace` adds a route of another type instead of replacing the old one.
    if (old && (old.nodes.length === 0) !== (nodes.length === 0))
      lines.push(`ip route flush table ${table} ${address}/32`)
    lines.push(`ip address replace ${address}/32 dev lo`, `ip route replace ${route}`)
  }
  for (const address of before.keys())
    lines.push(`ip address del ${address}/32 dev lo`, `ip route flush table ${table} ${address}/32`)
  return lines
}

/**
 * The addresses that the container has routes for, as `ip -o route show table` prints them: one
 * line each.
 */
export function readRoutes(printed: string): BalancedAddress[] {
  return printed.split('\n').flatMap((line) => {
    const address = /^(?:unreachable )?(\d+\.\d+\.\d+\.\d+)\b/.exec(line)?.[1]
    const nodes = [...line.matchAll(/\bvia (\d+\.\d+\.\d+\.\d+)/g)].map((match) => match[1] ?? '')
    return address === undefined ? [] : [{ address, nodes }]
  })
}

/** Reads the routes of the container. */
export async function presentRoutes(
  engine: EngineName,
  cluster: string,
): Promise<BalancedAddress[]> {
  const { stdout } = await inAppliance(engine, cluster, `ip -o route show table ${table}`)
  return readRoutes(stdout)
}

const noteFile = (cluster: string) => join(kindFolder(cluster), 'load-balancer.json')

/** True while the controller of this cluster runs. */
export const balancerRuns = (cluster: string) => notedProcess(noteFile(cluster)) !== undefined

/**
 * Starts the load balancer if it does not run. It gives Services of type LoadBalancer their
 * addresses: a container in front of the nodes, from an image that the engine has, and a controller
 * process. A cluster works without it, so errors are only reported. `image` is one that the engine
 * has: the node image.
 */
export async function startBalancer(
  { engine, name, image }: { engine: EngineName; name: string; image: string },
  progress: Progress,
): Promise<void> {
  try {
    await ensureAppliance(engine, name, image)
  } catch (error) {
    return progress.note(`Services of type LoadBalancer stay pending: ${reasonOf(error)}.`)
  }
  if (balancerRuns(name)) return
  const log = openSync(join(kindFolder(name), 'load-balancer.log'), 'a', 0o600)
  const child = spawn(
    process.execPath,
    [START, 'cluster/kind/load-balancer/daemon.ts', name, engine],
    {
      cwd: projectRoot,
      detached: true,
      stdio: ['ignore', log, log],
    },
  )
  closeSync(log)
  if (child.pid !== undefined) noteProcess(noteFile(name), child.pid)
  child.unref()
}

/** Ends both. Does nothing if they do not run. */
export async function stopBalancer(engine: EngineName, cluster: string): Promise<void> {
  await endNotedProcess(noteFile(cluster), 'SIGTERM', 'the load balancer')
  await engineCommand()`${engine} rm --force ${applianceName(cluster)}`
}
