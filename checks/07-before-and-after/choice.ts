// Lab 7: which mode for which purpose, answered from what this cluster showed.

import type { CheckContext, WrongAnswer } from '../../grading/check-context.ts'
import { expectMode } from '../../grading/expect-node.ts'
import { webService } from '../../grading/expect-object.ts'
import { expectFound, NotApplicable, onNode } from '../../grading/failure.ts'
import { missingKernelFeatures, recordedLack } from '../../grading/kernel-features.ts'
import type { Truth } from '../../grading/question.ts'
import { kubeProxyVersionOf, stateOf } from '../../grading/snapshot.ts'
import { hasNftables } from './nftables.ts'

const README = 'labs/07-before-and-after/README.md'
const REQUESTS = 600

/** Three numbers, with any of the usual separators. */
const threeNumbers = (...numbers: number[]): string[] =>
  [' ', ', ', ',', '/', ' / ', '; '].map((between) => numbers.join(between))

/**
 * Question: how many of many connections fail in iptables mode, in userspace mode, and with a
 * readiness probe.
 */
export function failuresByMode({ snapshot }: CheckContext): Truth {
  const { backends } = webService(snapshot)
  const hasDeaf = backends.some(({ pod }) => pod === 'deaf')
  const endpoints = backends.length + (hasDeaf ? 0 : 1)
  const lost = REQUESTS / endpoints
  const numbers = (answer: string) => answer.split(/[^0-9.]+/).map(Number)
  const wrong: WrongAnswer[] = [
    {
      when: (answer) => numbers(answer).length !== 3,
      because:
        'The answer is three numbers: iptables mode, userspace mode, iptables mode with a probe.',
    },
    {
      when: (answer) => (numbers(answer)[1] ?? 0) > 0,
      because:
        'In userspace mode kube-proxy has accepted the connection itself and dials the next endpoint: step retried lost none.',
    },
    {
      when: (answer) => (numbers(answer)[2] ?? 0) > 0,
      because: 'With the probe deaf is not ready, and no rule leads to it: step probed lost none.',
    },
    {
      when: (answer) => numbers(answer)[0] === REQUESTS / (endpoints - 1),
      because: `deaf is one of ${endpoints} endpoints, beside ${endpoints - 1} that answer.`,
    },
    {
      when: (answer) => numbers(answer)[0] === 0,
      because:
        'In iptables mode nothing tries again: step fails lost every connection that went to deaf.',
    },
  ]
  return {
    accepts: threeNumbers(lost, 0, 0),
    inspect: 'make check-7',
    wrong,
    because: `One in ${endpoints} goes to deaf. A rule cannot try again, a process can, and a probe takes deaf out of the rules before.`,
  }
}

/**
 * Question: with how many rules a packet for no Service is compared: all of KUBE-SERVICES, on a
 * node of this cluster.
 */
export function comparedInVain(context: CheckContext): Truth {
  expectMode(context, 'iptables', { next: 'make iptables && make flush-nat' })
  const node = expectFound(context.nodes.at(-1), {
    inspect: 'kubectl get nodes',
    expected: 'a node',
  })
  const rules = stateOf(node).iptables.get('nat')?.get('KUBE-SERVICES')?.rules ?? []
  const services = rules.filter(({ spec }) => /-j KUBE-SVC-/.test(spec)).length
  return {
    accepts: [String(rules.length)],
    inspect: onNode(node.name, 'iptables -t nat -S KUBE-SERVICES'),
    wrong: [
      {
        when: String(rules.length + 1),
        because: 'The first line that `iptables -S` prints, -N, creates the chain. It is no rule.',
      },
      {
        when: String(services),
        because:
          'The last rule, which leads to node ports, is compared, too: only after it is clear that no Service is meant.',
      },
      {
        when: (answer) => answer === '0' || answer === '1',
        because:
          'So it would be in nftables mode, where a map is looked up once. A chain is evaluated rule by rule, until one matches.',
      },
    ],
    because: `Every one of its ${rules.length} rules, for every new connection to anywhere. In nftables mode it is one lookup, in IPVS mode a few rules with sets.`,
  }
}

/**
 * Question: the mode and scheduler that consider the load of Pods. Only a virtual server has a
 * scheduler.
 */
export const schedulerByLoad = (): Truth => ({
  accepts: ['ipvs-lc'],
  inspect: 'make ipvs SCHEDULER=lc',
  wrong: [
    {
      when: 'ipvs-rr',
      because: 'rr takes turns, without regard to how many connections are open.',
    },
    {
      when: 'ipvs-sh',
      because: 'sh hashes the address of the client: one client always gets the same Pod.',
    },
    {
      when: 'iptables',
      because: 'Its rules choose at random for each new connection, and count nothing.',
    },
    {
      when: 'nftables',
      because:
        'numgen random chooses an element of a map; no map knows which connections are open.',
    },
  ],
  because:
    'IPVS has a table of connections, so it can count them. Each node counts only its own, which limits the use of these schedulers.',
})

/**
 * Question: the mode for thousands of Services on this kernel and kube-proxy: one without a growing
 * list, nftables before IPVS.
 */
export async function modeForThousands({ live, nodes }: CheckContext): Promise<Truth> {
  const [node] = nodes
  const runs = async (mode: 'nftables' | 'ipvs') => {
    if (live) return (await missingKernelFeatures(live, nodes, mode)) === undefined
    const recorded = recordedLack(nodes, mode)
    if (!recorded) throw new NotApplicable("the kernel's features are not in this capture")
    return recorded.lacks === undefined
  }
  if (node && hasNftables(node) && (await runs('nftables'))) return bestHere('nftables')
  return bestHere((await runs('ipvs')) ? 'ipvs' : 'iptables')
}

/** The best mode of these nodes, and why none of the others. */
function bestHere(best: 'nftables' | 'ipvs' | 'iptables'): Truth {
  const others: Record<string, string> = {
    userspace: 'It copies every byte through a process, and was removed in 1.26.',
    iptables: 'Every new connection would be compared with thousands of entries (lab 6).',
    ipvs: 'It looks up, too, but it is deprecated, and nftables mode runs on these nodes.',
    nftables:
      'It would be the choice, but not on these nodes: their kernel lacks NAT in nf_tables, or their kube-proxy is too old.',
  }
  return {
    accepts: [best],
    inspect: 'make doctor',
    wrong: Object.entries(others)
      .filter(([mode]) => mode !== best)
      .map(([when, because]) => ({ when, because })),
    because:
      best === 'nftables'
        ? 'A lookup instead of a list, and the mode that is intended to stay.'
        : 'Of the modes that these nodes can run, it is the best one for long lists of Services.',
  }
}

/** Question: the default mode; nftables is planned as default from 1.40 on. */
export const modeByDefault = (): Truth => ({
  accepts: ['iptables'],
  inspect: `less ${README}`,
  wrong: [
    { when: 'userspace', because: 'It was the default up to 1.1, and no longer exists.' },
    { when: 'ipvs', because: 'It never was the default, and is deprecated.' },
    { when: 'nftables', because: 'That is planned for 1.40. This cluster is older.' },
  ],
  because: 'iptables since 1.2. From 1.37 on kube-proxy warns if the field is empty.',
})

/** Minor versions of KEP-5495. */
const PLAN = { deprecated: 35, gateOff: 40, gone: 43 }

/**
 * Question: how many minor versions after this cluster's own the one without IPVS mode is planned.
 */
export function versionsUntilGone({ nodes }: CheckContext): Truth {
  const [node] = nodes
  const version = node ? kubeProxyVersionOf(node) : ''
  const minor = Number(/^v?1\.(\d+)/.exec(version)?.[1] ?? Number.NaN)
  const until = (version: number) => String(version - minor)
  return {
    accepts: [until(PLAN.gone)],
    inspect: `kubectl -n kube-system get daemonset kube-proxy -o wide; less ${README}`,
    wrong: [
      {
        when: until(PLAN.deprecated),
        because: '1.35 calls it deprecated: a warning in the log. It still runs.',
      },
      {
        when: until(PLAN.gateOff),
        because: 'In 1.40 its gate is off by default, and can still be turned on.',
      },
      {
        when: (answer) => /^v?1\.\d+/.test(answer),
        because:
          'The question is for the number of minor versions between this cluster and that one.',
      },
    ],
    because: `1.${PLAN.gone} minus the 1.${minor} of this cluster. With three releases a year, that is the time for a migration.`,
  }
}
