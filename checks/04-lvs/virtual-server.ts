import * as z from 'zod'
import { contains, printEndpoint } from '../../dataplane/ip-address.ts'
import {
  printIpvsadmSave,
  type RealServer,
  type VirtualServer,
  virtualServerKey,
} from '../../dataplane/ipvsadm-save.ts'
import { HOOKS, type Hook } from '../../dataplane/trace/step.ts'
import type { Advice } from '../../grading/advice.ts'
import { type Check, type CheckContext, onceNoted } from '../../grading/check-context.ts'
import { configOf } from '../../grading/evaluate.ts'
import { expectMode, expectNode } from '../../grading/expect-node.ts'
import { expectOnNode, expectThat, onNode } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import {
  countedBetween,
  type HookCounts,
  HookProbes,
  LOOK_AT_PROBES,
  onePacket,
} from '../../grading/packet-counters.ts'
import type { Truth } from '../../grading/question.ts'
import { type NodeView, stateOf } from '../../grading/snapshot.ts'
import { type LvsNodes, lvsNodes, REAL_PORT, VIP, VIPS } from './lvs-nodes.ts'
import { answersFrom, expectAnswered, requestTimes, tally } from './outside-client.ts'

interface Wanted {
  /** `TCP 192.0.2.10:8090` or `FWM 8109`. */
  key: string
  scheduler: string
  forward: RealServer['forward']
  /** Weights of the real servers, the largest first; one per real server. */
  weights: readonly number[]
  /** Ports of the real servers; by default the one of that method. */
  ports?: readonly number[]
}

const OPTION = { masq: '-m', route: '-g', tunnel: '-i' } as const

/** The director has this virtual server with exactly these real servers. Returns it. */
export function expectVirtualServer(
  { director, realServers }: LvsNodes,
  wanted: Wanted,
): VirtualServer {
  const { key, scheduler, forward, weights, ports = [REAL_PORT[forward]] } = wanted
  const found = stateOf(director).virtualServers.find((server) => virtualServerKey(server) === key)
  const possible = realServers.flatMap(({ address }) =>
    ports.map((port) => printEndpoint(address, port)),
  )
  const isPlain =
    found?.scheduler === scheduler && found.persistent === undefined && found.flags.length === 0
  const isOurs = (real: RealServer) =>
    real.forward === forward && possible.includes(printEndpoint(real.address, real.port))
  const input = found?.realServers.map(({ weight }) => weight).sort((one, other) => other - one)
  const [kind = '', place = ''] = key.split(' ')
  const option = kind === 'FWM' ? '-f' : '-t'
  const isRight = isPlain && found.realServers.every(isOurs) && input?.join() === weights.join()
  expectOnNode(director.name, 'ipvsadm -Sn', found && isRight, {
    expected: `the virtual server ${key} with scheduler ${scheduler} and ${weights.length} real servers out of ${possible.join(', ')}, with ${OPTION[forward]} and weights ${weights.join(' and ')}`,
    actual: found
      ? printIpvsadmSave([found]).trim().replaceAll('\n', '; ')
      : 'no such virtual server',
    hint: `Use ipvsadm on ${director.name}: -A and ${option} ${place} -s ${scheduler} for the virtual server, -a … -r ADDRESS:PORT ${OPTION[forward]} -w WEIGHT for each real server; -E and -e change what is there.`,
  })
  return found
}

/** Compares the real servers' answers with the expected scheduling. */
export function expectScheduling(
  { director }: LvsNodes,
  {
    holds,
    of = '--stats',
    ...details
  }: { holds: boolean; of?: string; expected: string; actual: string; hint?: string },
): void {
  expectOnNode(director.name, `ipvsadm -Ln ${of}`, holds, details)
}

/**
 * A check of several schedulers, with a measured line for each.
 * @param servers expects the virtual servers of a scheduler
 * @param measure opens connections, fails if they are distributed in another way, and returns a
 * line
 */
export const compareSchedulers =
  <Scheduler extends string, Servers>(
    schedulers: readonly Scheduler[],
    servers: (lvs: LvsNodes, scheduler: Scheduler, live: LiveCluster | undefined) => Servers,
    measure: (
      live: LiveCluster,
      lvs: LvsNodes,
      scheduler: Scheduler,
      found: Servers,
    ) => Promise<string>,
    title: readonly string[] = [],
  ): Check =>
  async (context) => {
    const { live } = context
    const lvs = await lvsNodes(context)
    const found = schedulers.map((scheduler) => ({
      scheduler,
      servers: servers(lvs, scheduler, live),
    }))
    if (!live) return
    const lines = [...title]
    for (const one of found) lines.push(await measure(live, lvs, one.scheduler, one.servers))
    context.show(lines)
  }

/** The node of the real server with the largest weight. */
export function heaviest({ realServers }: LvsNodes, server: VirtualServer): string {
  const [first] = server.realServers.toSorted((one, other) => other.weight - one.weight)
  return realServers.find(({ address }) => address === first?.address)?.node ?? ''
}

const REQUESTS = 4
const FIRST = { address: VIP, port: REAL_PORT.masq }
const FIRST_SERVER: Wanted = {
  key: `TCP ${VIP}:${REAL_PORT.masq}`,
  scheduler: 'rr',
  forward: 'masq',
  weights: [1, 1],
}

/** Advice for a request through a virtual server that has no answer. */
export const CHECK_FIRST: Advice = {
  hint: 'The check of the step virtual-server shows whether the path works:',
  next: 'make check-4 STEP=virtual-server',
}

/** The learner's first virtual server, as later steps need it. */
export const expectFirstServer = (lvs: LvsNodes): VirtualServer =>
  expectVirtualServer(lvs, FIRST_SERVER)

/** That number of requests through the learner's first virtual server, each answered. */
export const requestFirstServer = (
  live: LiveCluster,
  lvs: LvsNodes,
  times: number,
): Promise<string[]> => expectAnswered(live, lvs, requestTimes(times, FIRST), CHECK_FIRST)

/** The learner's virtual server answers the machine outside, with each real server in turn. */
export async function virtualServerAnswers(context: CheckContext): Promise<void> {
  const lvs = await lvsNodes(context)
  expectFirstServer(lvs)
  expectAddress(lvs, VIP)
  if (!context.live) return
  const hint = `Outside needs a route to ${VIP} via the director, and the director net.ipv4.vs.conntrack=1, so that answers return through it.`
  const answers = await expectAnswered(context.live, lvs, requestTimes(REQUESTS, FIRST), { hint })
  expectScheduling(lvs, {
    holds: lvs.realServers.every(({ node }) => answersFrom(answers, node) === REQUESTS / 2),
    expected: `${REQUESTS} answers to ${REQUESTS} requests, ${REQUESTS / 2} of each real server`,
    actual: tally(answers, lvs),
  })
}

/** The director has that address: without it, packets for it would not be delivered locally. */
export const expectAddress = ({ director }: LvsNodes, address: string): void =>
  expectNode(director).hasAddress(address, {
    expected: `${address} as an address of the director`,
    why: 'IPVS is hooked into LOCAL_IN, which only packets to an address of the node traverse.',
  })

/**
 * kube-proxy ran in IPVS mode with excludeCIDRs, and did not delete the learner's virtual server.
 */
export const kubeProxySparesOthers = onceNoted(
  'spared-by-kube-proxy',
  z.literal(true),
  async (context) => {
    const { snapshot, live } = context
    const lvs = await lvsNodes(context)
    const { excludeCIDRs } = configOf(snapshot).ipvs
    const open = VIPS.find((address) => !excludeCIDRs.some((range) => contains(range, address)))
    expectThat(open === undefined, {
      inspect: 'kubectl -n kube-system get configmap kube-proxy -o yaml | grep -A 3 excludeCIDRs',
      expected: `${open} in a range of ipvs.excludeCIDRs in the configuration of kube-proxy`,
      actual: excludeCIDRs.length === 0 ? 'no range at all' : excludeCIDRs.join(', '),
      hint: 'Put 192.0.2.0/24 there before kube-proxy runs in IPVS mode; what it has deleted does not come back.',
    })
    expectMode(context, 'ipvs', { next: 'make ipvs' })
    expectFirstServer(lvs)
    if (live) await requestFirstServer(live, lvs, 1)
    return true
  },
)

const probes = new HookProbes('lab-4', REAL_PORT.masq)
/**
 * The path of a packet that IPVS takes in LOCAL_IN and forwards through LOCAL_OUT
 * (net/netfilter/ipvs/ip_vs_core.c, ip_vs_xmit.c).
 */
const PATH: Hook[] = ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING']

/** The counters of the learner's probes on the director; fails if a hook has none. */
export const countedByProbes = (director: NodeView): HookCounts =>
  probes.expectInEveryHook(director)

/**
 * One request increases the counters on the path through IPVS by one, and not the one in FORWARD.
 */
export async function requestTakesThePath(context: CheckContext): Promise<void> {
  const lvs = await lvsNodes(context)
  const { live } = context
  const counts = probes.expectInEveryHook(lvs.director)
  const seen = live ? await countedByRequest(live, lvs) : countedBetween({}, counts)
  const isRight = live
    ? seen === onePacket(...PATH)
    : HOOKS.every((hook) => Boolean(counts[hook]) === PATH.includes(hook))
  expectOnNode(lvs.director.name, LOOK_AT_PROBES, isRight, {
    expected: `one SYN counted in ${PATH.join(', ')}, and none in FORWARD`,
    actual: seen,
    hint: `Each probe must match only SYN packets to port ${REAL_PORT.masq}: -p tcp --syn --dport ${REAL_PORT.masq}`,
  })
}

async function countedByRequest(live: LiveCluster, lvs: LvsNodes): Promise<string> {
  const before = await probes.readOn(live, lvs.director.name)
  await requestFirstServer(live, lvs, 1)
  return countedBetween(before, await probes.readOn(live, lvs.director.name))
}

/** The hook that a request does not traverse, according to the learner's probes. */
export async function unseenHook(context: CheckContext): Promise<Truth> {
  const lvs = await lvsNodes(context)
  const counts = probes.expectInEveryHook(lvs.director)
  expectOnNode(
    lvs.director.name,
    LOOK_AT_PROBES,
    HOOKS.some((hook) => counts[hook]),
    {
      expected: 'probes that have counted a request',
      actual: 'all of them are at 0',
      next: `make exec NODE=outside CMD='curl -s ${VIP}:${REAL_PORT.masq}'`,
    },
  )
  return {
    accepts: HOOKS.filter((hook) => !counts[hook]),
    inspect: onNode(lvs.director.name, LOOK_AT_PROBES),
    wrong: [
      {
        when: 'OUTPUT',
        because:
          'No process of the director sends the packet, but IPVS does, and that passes OUTPUT since Linux 2.6. Look at its counter.',
      },
      {
        when: 'INPUT',
        because:
          'The packet is addressed to the director, so its rules of INPUT come first, and IPVS after them.',
      },
    ],
    because:
      'A packet is forwarded if it is addressed to another machine when it arrives. This one was addressed to the director.',
  }
}
