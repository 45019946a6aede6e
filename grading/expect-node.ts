// Assertions about a node, for checks. Each throws a failure with the node, the command to inspect
// it, the expected and the actual state, or returns if it holds.

import type { Link } from '../dataplane/ip-addr.ts'
import type { Rule } from '../dataplane/iptables-save.ts'
import type { KubeProxyMode } from '../dataplane/kube-proxy/config.ts'
import { describeFlush, isEmptyFlush, planFlush } from '../dataplane/kube-proxy/flush.ts'
import type { KernelMode } from '../dataplane/kube-proxy/mode-ownership.ts'
import { type Advice, LEFT_BY_OTHER_MODE, otherMode } from './advice.ts'
import type { CheckContext } from './check-context.ts'
import { ChainExpectation } from './expect-chain.ts'
import { type FailureText, NotApplicable, onNode } from './failure.ts'
import { type PacketTarget, type Sender, traceCommand, tracedTo } from './packet-trace.ts'
import {
  type Concerns,
  inChain,
  inSet,
  type Mismatch,
  OnNodes,
  PredictedPart,
} from './predicted-part.ts'
import { filesOf, modeOf, type NodeView, objectsOf, stateOf } from './snapshot.ts'

const PROXY_MODE = 'curl -s localhost:10249/proxyMode'
const SILENT = 'no kube-proxy responds on this node'
const NO_KUBE_PROXY: Advice = {
  hint: 'The kube-proxy Pod of this node does not run, or does not answer:',
  next: 'kubectl -n kube-system get pods -l k8s-app=kube-proxy -o wide',
}

/** Expectations of every one of these nodes; the first that does not meet one fails the check. */
export const expectNodes = (nodes: readonly NodeView[]): NodeExpectation =>
  new NodeExpectation(nodes)

/** Expectations of one node. */
export const expectNode = (node: NodeView): NodeExpectation => new NodeExpectation([node])

/**
 * kube-proxy runs in that mode on every node. A capture in another mode was recorded at another
 * moment: the step is not applicable.
 */
export function expectMode(
  { nodes, live }: Pick<CheckContext, 'nodes' | 'live'>,
  mode: KubeProxyMode,
  texts: FailureText = {},
): void {
  if (!live && nodes.some((node) => modeOf(node) !== mode))
    throw new NotApplicable(`kube-proxy was not in ${mode} mode when this capture was taken`)
  expectNodes(nodes).runMode(mode, {
    expected: `kube-proxy in ${mode} mode on every node`,
    ...texts,
  })
}

export class NodeExpectation extends OnNodes {
  /** kube-proxy replies to /proxyMode with this mode. */
  runMode(mode: KubeProxyMode, texts: FailureText = {}): void {
    const mismatchOf = (node: NodeView): Mismatch | undefined => {
      const runs = modeOf(node)
      if (runs === mode) return undefined
      const advice = runs === undefined ? NO_KUBE_PROXY : otherMode(node.name, runs, mode)
      return {
        actual: runs ?? SILENT,
        ...(texts.hint === undefined && texts.next === undefined && advice),
      }
    }
    this.each(PROXY_MODE, `kube-proxy in ${mode} mode`, mismatchOf, texts)
  }

  /** kube-proxy runs and reports a mode, which may be any. */
  reportMode(): void {
    this.each(PROXY_MODE, 'a kube-proxy that answers on every node', (node) =>
      modeOf(node) === undefined ? { actual: SILENT, ...NO_KUBE_PROXY } : undefined,
    )
  }

  /** The capture contains a file: the tool that prints it is installed on the node. */
  run(tools: Record<string, string>, inspect: string, texts: FailureText = {}): void {
    const mismatchOf = (node: NodeView): Mismatch | undefined => {
      const missing = Object.keys(tools).filter(
        (tool) => filesOf(node).get(tools[tool] ?? '') === undefined,
      )
      return missing.length === 0 ? undefined : `${missing.join(' and ')} did not run`
    }
    this.each(
      inspect,
      `${Object.keys(tools).join(' and ')} running on every node`,
      mismatchOf,
      texts,
    )
  }

  /** Chains by table and name: `nat KUBE-SERVICES`. */
  chains(...places: [string, ...string[]]): PredictedPart {
    const [table, chain] = places[0].split(' ')
    return this.where(inChain(...places), `iptables -t ${table} -nvL ${chain}`)
  }

  /** Chains of nat by a test of their names; `inspect` shows them. */
  natChains(test: (chain: string) => boolean, inspect: string): PredictedPart {
    return this.where(
      (where) => 'chain' in where && where.table === 'nat' && test(where.chain),
      inspect,
    )
  }

  /** Everything that kube-proxy programs; `inspect` prints it. */
  everything(inspect: string): PredictedPart {
    return this.where(() => true, inspect)
  }

  /** Any other part, by its places and the command to inspect them. */
  where(concerns: Concerns, inspect: string): PredictedPart {
    return new PredictedPart(this.nodes, concerns, inspect)
  }

  /** One chain by table and name, for its jumps and rules: `nat OUTPUT`. */
  chain(place: string): ChainExpectation {
    return new ChainExpectation(this.nodes, place)
  }

  /** Sets of ipset by their names. */
  sets(...names: [string, ...string[]]): PredictedPart {
    return this.where(inSet(...names), `ipset list ${names[0]}`)
  }

  /** Every set of kube-proxy except these; `inspect` is the set in the command. */
  setsExcept(names: readonly string[], inspect: string): PredictedPart {
    return this.where((where) => 'set' in where && !inSet(...names)(where), `ipset list ${inspect}`)
  }

  /**
   * Virtual servers with their real servers; only those whose key, such as `TCP 10.96.0.1:443`,
   * ends with this text.
   */
  virtualServers(end = ''): PredictedPart {
    return this.where(
      (where) => 'virtualServer' in where && where.virtualServer.endsWith(end),
      'ipvsadm -Ln',
    )
  }

  /** No rule that is not kube-proxy's takes packets to Services out of their way. */
  noForeignRuleAffectsServicePackets(mode: KubeProxyMode): void {
    const foreign: Concerns = (where, { interferes }) =>
      interferes === true && ('chain' in where || 'nft' in where)
    this.where(foreign, 'iptables-save').equalPrediction(
      mode,
      'no foreign rule that affects packets to Services',
    )
  }

  /**
   * There are no leftovers of kube-proxy's other modes: chains, sets, virtual servers, addresses,
   * tables.
   */
  nothingOfOtherModes(
    mode: KernelMode,
    { inspect, ...texts }: FailureText & { inspect: string },
  ): void {
    const mismatchOf = (node: NodeView): Mismatch | undefined => {
      const plan = planFlush(mode, stateOf(node))
      return isEmptyFlush(plan)
        ? undefined
        : { actual: describeFlush(plan).join(', '), ...LEFT_BY_OTHER_MODE }
    }
    this.each(inspect, `nothing that another mode than ${mode} programs`, mismatchOf, texts)
  }

  /** No rule of iptables, in any table and chain, is the one that is meant. */
  noRuleWhere(
    isMeant: (rule: Rule) => boolean,
    inspect: string,
    expected: string,
    texts: FailureText = {},
  ): void {
    const mismatchOf = (node: NodeView): Mismatch | undefined => {
      for (const chains of stateOf(node).iptables.values())
        for (const [chain, { rules }] of chains) {
          const rule = rules.find(isMeant)
          if (rule) return `-A ${chain} ${rule.spec}`
        }
      return undefined
    }
    this.each(inspect, expected, mismatchOf, texts)
  }

  /** The node's end of every Pod's veth pair is up. */
  everyPodLinkUp(mode: KubeProxyMode): void {
    const down: Concerns = (where, { interferes }) => interferes === true && 'link' in where
    this.where(down, 'ip -brief link').equalPrediction(mode, 'the link of every Pod UP')
  }

  /** One interface by its name, such as kube-ipvs0. */
  link(name: string): LinkExpectation {
    return new LinkExpectation(this.nodes, name)
  }

  /**
   * An address that a learner adds by hand, on any interface; the next command adds it to lo.
   * Addresses that kube-proxy adds are part of the prediction: `link('kube-ipvs0')`.
   */
  hasAddress(address: string, texts: FailureText): void {
    this.each(
      'ip -brief address',
      `${address} as an address of the node`,
      (node) =>
        stateOf(node).links.some(({ addresses }) =>
          addresses.some((one) => one.address === address),
        )
          ? undefined
          : {
              actual: 'no interface has it',
              next: onNode(node.name, `ip addr add ${address}/32 dev lo`),
            },
      texts,
    )
  }

  /** No interface has a ClusterIP: in iptables mode it is only a pattern in rules. */
  noInterfaceHasClusterIP(): void {
    const mismatchOf = (node: NodeView): Mismatch | undefined => {
      const clusterIPs = new Set(
        objectsOf(node.snapshot).services.flatMap((service) => service.clusterIPs),
      )
      for (const link of stateOf(node).links) {
        const owned = link.addresses.find(({ address }) => clusterIPs.has(address))?.address
        if (owned === undefined) continue
        return {
          actual: `${link.name} has ${owned}`,
          differences: [
            {
              kind: 'stale',
              text: `${owned} on ${link.name}`,
              actual: `${owned} dev ${link.name}`,
            },
          ],
          hint: 'An earlier IPVS mode left it there:',
          next: 'make flush-nat',
        }
      }
      return undefined
    }
    this.each('ip -brief addr', 'no ClusterIP on any interface', mismatchOf)
  }

  /**
   * By rules, sets and virtual servers of the node, a packet of this sender reaches exactly these
   * backends (by default: any), with its source replaced or kept (by default: either); with no
   * backends, it is dropped.
   */
  packetReaches(
    sender: Sender,
    target: PacketTarget,
    { backends, masqueraded }: { backends?: readonly string[]; masqueraded?: boolean } = {},
    texts: FailureText = {},
  ): void {
    const source =
      masqueraded === undefined ? '' : `, with its source ${masqueraded ? 'replaced' : 'kept'}`
    const end =
      backends?.length === 0 ? 'dropped' : `at ${backends?.join(' or ') ?? 'a backend'}${source}`
    const mismatchOf = (node: NodeView): string | undefined => {
      const found = tracedTo(node, sender, target)
      const reached = [...new Set(found.backends)].sort()
      const isRight = backends ? reached.join() === backends.toSorted().join() : reached.length > 0
      return isRight && (masqueraded ?? found.masqueraded) === found.masqueraded
        ? undefined
        : found.text
    }
    const expected = `the packet to ${target.address}:${target.port} ${end}`
    this.each((node) => traceCommand(node, sender, target), expected, mismatchOf, texts)
  }
}

/** One interface on every node. */
export class LinkExpectation extends PredictedPart {
  readonly #name: string

  constructor(nodes: readonly NodeView[], name: string) {
    super(nodes, (where) => 'link' in where && where.link === name, `ip -d addr show ${name}`)
    this.#name = name
  }

  /** It has no fault; `faultsOf` returns texts of faults or undefined. */
  hasNoFault(
    faultsOf: (link: Link | undefined) => (string | undefined)[],
    expected: string,
    texts: FailureText = {},
  ): void {
    const mismatchOf = (node: NodeView): string | undefined => {
      const link = stateOf(node).links.find((candidate) => candidate.name === this.#name)
      const faults = faultsOf(link).filter((fault) => fault !== undefined)
      return faults.length === 0 ? undefined : faults.join(', ')
    }
    this.each(`ip -d link show ${this.#name}`, expected, mismatchOf, texts)
  }
}
