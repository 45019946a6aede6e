// The nodes in two modes at once: the canary, the way back, and node by node.

import * as z from 'zod'
import { kubeProxyPods } from '../../cluster/kube-proxy/kube-proxy-pods.ts'
import type { Difference } from '../../dataplane/compare.ts'
import {
  type FlushPlan,
  isEmptyFlush,
  planFlush,
  type RulesetFlush,
} from '../../dataplane/kube-proxy/flush.ts'
import type { KernelMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { type CheckContext, onceSeen, type Truth } from '../../grading/check-context.ts'
import { evaluate } from '../../grading/evaluate.ts'
import { expectMode, expectNode } from '../../grading/expect-node.ts'
import { expectFound, expectThat } from '../../grading/failure.ts'
import { modeOf, type NodeView, stateOf } from '../../grading/snapshot.ts'
import { modeChange } from './migration.ts'
import { daemonSetIn, NEXT, NODE_LABEL, nextPods } from './second-kube-proxy.ts'

const isInRules = (
  { chains, jumps }: RulesetFlush,
  { table, chain }: { table: string; chain: string },
  line: string,
) =>
  chains.some((one) => one.table === table && one.chain === chain) ||
  jumps.some((one) => one.table === table && line === `-A ${one.chain} ${one.spec}`)

/**
 * True for a difference that `make flush-nat` would remove: it belongs to the mode that ran before.
 */
function isLeftover({ kind, where, actual = '' }: Difference, plan: FlushPlan): boolean {
  if (kind !== 'stale') return false
  if ('virtualServer' in where) return plan.virtualServers.length > 0
  if ('set' in where) return plan.sets.some(({ name }) => name === where.set)
  if ('link' in where) return plan.linkAddresses !== undefined
  if ('nft' in where) return plan.nftables.length > 0
  return isInRules(where.family === 'ipv6' ? plan.ipv6 : plan.ipv4, where, actual)
}

/**
 * A node has what kube-proxy of its mode programs, entry by entry; the other mode may have left
 * something.
 */
function expectProgrammed(node: NodeView, mode: KernelMode): void {
  expectNode(node).runMode(mode)
  const state = stateOf(node)
  const plan = planFlush(mode, state, state.ip6tables)
  const differences = evaluate(node, mode).differences.filter(
    (one) => !one.interferes && !isLeftover(one, plan),
  )
  const [first] = differences
  expectThat(!first, {
    node: node.name,
    inspect: `make capture DIR=captures/lab-9 && node --import tsx scripts/expect.ts --diff captures/lab-9 --node ${node.name} --mode ${mode}`,
    expected: `what kube-proxy of ${mode} mode programs, entry by entry`,
    actual: `${first?.text}${differences.length > 1 ? `, and ${differences.length - 1} more` : ''}`,
    differences,
  })
}

const CANARY = 'canary'
const canaryNote = z.object({ node: z.string(), seenAt: z.string() })

/** One node runs the new mode, the others the old one, each as predicted for its own. */
export const oneNodeRunsNew = onceSeen(CANARY, async (context: CheckContext) => {
  const { nodes } = context
  const { from, to } = modeChange(context)
  const canaries = nodes.filter((node) => modeOf(node) === to)
  const [canary] = canaries
  expectThat(canary && canaries.length === 1, {
    inspect: 'kubectl -n kube-system get pods -l k8s-app=kube-proxy -o wide',
    expected: `one node in ${to} mode, and the others in ${from} mode`,
    actual: canary ? canaries.map(({ name }) => name).join(', ') : 'none',
    ...(canary && {
      hint: 'Give the other nodes back, one after the other:',
      next: `kubectl label node ${canary.name} ${NODE_LABEL}-`,
    }),
  })
  for (const node of nodes) expectProgrammed(node, node === canary ? to : from)
  return { node: canary.name }
})

const canaryOf = (context: CheckContext): NodeView => {
  const { to } = modeChange(context)
  return expectFound(
    context.nodes.find((node) => modeOf(node) === to),
    { inspect: `kubectl get nodes -L ${NODE_LABEL}`, expected: `a node in ${to} mode` },
  )
}

/** Predict: what the old mode has left on the canary. */
export function leftOnCanary(context: CheckContext): Truth {
  const { from, to } = modeChange(context)
  const node = canaryOf(context)
  const state = stateOf(node)
  const plan = planFlush(to, state, state.ip6tables)
  const isWhole = plan.virtualServers.length > 0 && plan.sets.length > 0
  return {
    accepts: [isEmptyFlush(plan) || !isWhole ? 'next-to-nothing' : 'everything'],
    inspect: `make exec NODE=${node.name} CMD='ipvsadm -Ln; ipset list -n; iptables-save | grep -c KUBE-'`,
    wrong: [
      {
        when: 'everything',
        because:
          'That is so between iptables and IPVS mode. A kube-proxy that starts in nftables mode removes the rules of the others.',
      },
      {
        when: 'next-to-nothing',
        because: 'Only a kube-proxy that starts in nftables mode removes what another one left.',
      },
      {
        when: 'the-rules-only',
        because:
          'Virtual servers, sets and kube-ipvs0 are in the kernel as rules are: kube-proxy removes all of them, or none.',
      },
    ],
    because:
      from === 'ipvs'
        ? 'kube-proxy does not clean up between these two modes. The virtual servers are why connections that IPVS forwards go on.'
        : 'kube-proxy removes the rules of the other modes before it writes its own: for a moment the node has none.',
  }
}

/** Question: which kinds of differences the comparison of the canary lists. */
export function kindsOnCanary(context: CheckContext): Truth {
  const { to } = modeChange(context)
  const node = canaryOf(context)
  const kinds = new Set(
    evaluate(node, to)
      .differences.filter(({ interferes }) => !interferes)
      .map(({ kind }) => kind),
  )
  const [missing, stale] = [kinds.has('missing'), kinds.has('stale')]
  return {
    accepts: [missing && stale ? 'both' : missing ? 'missing' : stale ? 'stale' : 'none'],
    inspect: `node --import tsx scripts/expect.ts --diff captures/lab-9 --node ${node.name} --mode ${to}`,
    wrong: [
      {
        when: 'missing',
        because: 'Then a Service would not be served on the node. Count the lines again.',
      },
      { when: 'both', because: 'Count the lines of each kind: all of them are of one.' },
      { when: 'none', because: 'Exit status 1 says that there are some.' },
      {
        when: 'stale',
        because: 'Everything that kube-proxy writes is there, and nothing else: exit status 0.',
      },
    ],
    because:
      'Nothing that the new mode needs is missing; what is there besides belongs to the old one.',
  }
}

/** The node that had been changed runs the old mode again, while the second DaemonSet waits. */
export const canaryIsBack = onceSeen('back', async (context: CheckContext) => {
  const { notes, snapshot, nodes } = context
  const { from } = modeChange(context)
  const canary = expectFound(notes.read(CANARY, canaryNote), {
    inspect: `kubectl get nodes -L ${NODE_LABEL}`,
    expected: 'a node that was changed before, as step canary notes it',
    hint: 'Have the canary checked before you take the node back:',
    next: 'make check-9 STEP=canary',
  })
  expectThat(daemonSetIn(snapshot, NEXT), {
    inspect: 'kubectl -n kube-system get daemonsets',
    expected: `${NEXT}, which waits for the next node`,
    actual: 'it is gone',
  })
  const pod = kubeProxyPods(snapshot.items).find(({ spec }) => spec?.nodeName === canary.node)
  expectThat(pod && pod.metadata.labels?.next === undefined, {
    node: canary.node,
    inspect: 'kubectl -n kube-system get pods -l k8s-app=kube-proxy -o wide',
    expected: `a Pod of the first DaemonSet on ${canary.node}`,
    actual: pod ? `${pod.metadata.name} is of the second` : 'none yet',
    next: `kubectl label node ${canary.node} ${NODE_LABEL}-`,
  })
  for (const node of nodes) expectProgrammed(node, from)
  return { node: canary.node }
})

/** Predict: how long the node has no rules while it goes back. */
export function gapOnTheWayBack(context: CheckContext): Truth {
  const { to } = modeChange(context)
  return {
    accepts: [to === 'nftables' ? 'until-the-new-one-writes' : 'not-at-all'],
    inspect: 'kubectl logs -l app=traffic --prefix --tail=2',
    wrong: [
      {
        when: 'until-the-new-one-writes',
        because:
          'Rules are in the kernel, not in the Pod: they stay when kube-proxy ends, and neither of these modes removes the rules of the other.',
      },
      {
        when: 'not-at-all',
        because:
          'A kube-proxy of iptables mode deletes the tables of nftables mode when it starts, before it writes its own rules.',
      },
      {
        when: 'thirty-seconds',
        because: 'That is the period of a full synchronisation. A start does not wait for it.',
      },
    ],
    because:
      to === 'nftables'
        ? 'It deletes the tables first. The chain of the handover step drops what would go wrong in that moment, and TCP repeats it.'
        : 'No kube-proxy runs for a moment, and no client notices: the kernel goes on with the rules that it has.',
  }
}

interface ChangedNode {
  node: string
  /**
   * When its kube-proxy was created, and when it ran, as the API server has it: in whole seconds.
   */
  created: string
  running: string
}

/**
 * The nodes in the order of their change, and the first that was changed before the one before it
 * ran. Pure.
 */
export function orderOfChanges(changed: readonly ChangedNode[]): {
  inOrder: ChangedNode[]
  hasty: ChangedNode | undefined
} {
  // A fast cluster changes two nodes in one second: the one that ran first was the first.
  const inOrder = changed.toSorted(
    (one, other) =>
      one.created.localeCompare(other.created) || one.running.localeCompare(other.running),
  )
  const hasty = inOrder.find(({ created }, at) => created < (inOrder[at - 1]?.running ?? ''))
  return { inOrder, hasty }
}

/**
 * Every node runs the new mode by the second kube-proxy, and none was changed before the one before
 * it was ready.
 */
export const nodeByNode = onceSeen('forward', async (context: CheckContext) => {
  const { snapshot, nodes } = context
  const { to } = modeChange(context)
  const started = nextPods(snapshot).map(({ metadata, spec, status }) => ({
    node: spec?.nodeName ?? '',
    created: metadata.creationTimestamp ?? '',
    running: status?.containerStatuses?.[0]?.state?.running?.startedAt ?? '',
  }))
  const without = nodes.find(({ name }) => !started.some(({ node }) => node === name))
  expectThat(!without, {
    ...(without && { node: without.name }),
    inspect: `kubectl get nodes -L ${NODE_LABEL}`,
    expected: `a Pod of ${NEXT} on every node`,
    actual: `none on ${without?.name}`,
    next: `kubectl label node ${without?.name} ${NODE_LABEL}=next`,
  })
  const { inOrder, hasty } = orderOfChanges(started)
  expectThat(!hasty, {
    inspect: `kubectl -n kube-system get pods -l next=true -o wide`,
    expected: 'one node after the other: each was changed when the one before it ran',
    actual: `${hasty?.node} was changed at ${hasty?.created}, before the one before it ran`,
    why: 'If the new mode fails, it fails on every node that was changed.',
    hint: 'Give the nodes back, and change them one by one:',
    next: `kubectl label node --all ${NODE_LABEL}-`,
  })
  for (const node of nodes) expectProgrammed(node, to)
  return { nodes: inOrder.map(({ node }) => node) }
})

/** Predict: whether connections that existed at the change go on. */
export function keptAtTheChange(context: CheckContext): Truth {
  const { from } = modeChange(context)
  expectMode(context, modeChange(context).to, {})
  return {
    accepts: [from === 'ipvs' ? 'by-ipvs' : 'by-conntrack'],
    inspect:
      from === 'ipvs' ? "make exec CMD='ipvsadm -Lnc'" : "make exec CMD='conntrack -L -p tcp'",
    wrong: [
      {
        when: 'not-at-all',
        because: 'The clients keep connections for three seconds, and none of them failed.',
      },
      {
        when: 'by-conntrack',
        because:
          'The nat table never saw their first packets, so no entry has their translation: IPVS has its own table of connections.',
      },
      {
        when: 'by-ipvs',
        because: 'This cluster did not run IPVS mode: the translation is in conntrack.',
      },
      {
        when: 'by-the-new-rules',
        because: 'Rules of nat are met by the first packet of a connection only.',
      },
    ],
    because:
      from === 'ipvs'
        ? 'Their entries are in the table of IPVS, and the virtual servers are still there.'
        : 'conntrack has their translation, whatever the rules are now.',
  }
}
