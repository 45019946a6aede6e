// Lab 6: what kube-proxy measures of its own syncs, read from /metrics of the nodes.

import * as z from 'zod'
import { HTTP_GET } from '../../cluster/node-script.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { expectThat, NotApplicable, onNode, PastMoment, Trouble } from '../../grading/failure.ts'
import { learningOf } from '../../grading/learning-notes.ts'
import type { Truth } from '../../grading/question.ts'
import { modeOf } from '../../grading/snapshot.ts'
import { magnitudeName, magnitudesOf, misjudged } from './predictions.ts'
import { measuredRun } from './run.ts'

const STEP = 'own-sync'
const READ = 'curl -s localhost:10249/metrics | grep kubeproxy_sync_proxy_rules'
const SECONDS = 5

/**
 * kube-proxy's own figures on one node, by what follows `kubeproxy_sync_proxy_rules_`, without
 * labels other than the table's.
 */
interface OwnFigures {
  node: string
  count: number
  sum: number
  /** iptables_total and iptables_last of table nat, and iptables_total of filter. */
  owned: number | undefined
  written: number | undefined
  filter: number | undefined
}

/** Kept once: the nodes ran in iptables mode then. */
const seenNote = z.looseObject({})

/**
 * kube-proxy runs, or ran, in iptables mode on every node of a cluster with a run to compare it
 * with.
 */
export async function ranInIptablesMode(context: CheckContext): Promise<void> {
  const { nodes, notes } = context
  await measuredRun(context)
  if (notes.read(STEP, seenNote)) return
  // The figures were a running kube-proxy's: a capture proves them by the note of that time.
  if (!context.live) throw new PastMoment('this capture was taken before the metrics were read')
  for (const { name, ...view } of nodes) {
    const mode = modeOf(view)
    expectThat(mode === 'iptables', {
      node: name,
      inspect: onNode(name, 'curl -s localhost:10249/proxyMode'),
      expected: 'iptables: the metrics of this step count rules of iptables mode',
      actual: mode ?? 'no answer',
      next: 'make iptables',
    })
  }
  notes.keep(STEP, { nodes: nodes.length })
}

/**
 * The values of the metrics of syncs in the text of /metrics: those of IPv4, if families are told
 * apart.
 */
function readMetrics(text: string): ReadonlyMap<string, number> {
  const values = new Map<string, number>()
  for (const line of text.split('\n')) {
    const [, name, labels = '', value] =
      /^kubeproxy_sync_proxy_rules_(\w+)(\{[^}]*\})? (\S+)$/.exec(line) ?? []
    if (name === undefined || /[{,]le="/.test(labels)) continue
    // IPv6 has rules of its own, which no question of this lab is about.
    if (labels.includes('ip_family="IPv6"')) continue
    const table = /table="(\w+)"/.exec(labels)?.[1]
    values.set(table === undefined ? name : `${name} ${table}`, Number(value))
  }
  return values
}

/** Reads them on every node. Not applicable to a capture. */
async function ownFigures({ live, nodes }: CheckContext): Promise<OwnFigures[]> {
  if (!live) throw new NotApplicable('only a running kube-proxy reports its metrics')
  return Promise.all(
    nodes.map(async ({ name }) => {
      const script = `${HTTP_GET}\nhttp_get 127.0.0.1 10249 /metrics ${SECONDS}\n`
      const { stdout } = await live.readOnNode(name, script)
      const values = readMetrics(stdout)
      const count = values.get('duration_seconds_count')
      if (!count) throw new Trouble(`kube-proxy on ${name} reported no sync at /metrics`)
      return {
        node: name,
        count,
        sum: values.get('duration_seconds_sum') ?? 0,
        owned: values.get('iptables_total nat'),
        written: values.get('iptables_last nat'),
        filter: values.get('iptables_total filter'),
      }
    }),
  )
}

const TIMES = ['1ms', '10ms', '100ms', '1s']

/** Prediction: the average time of a sync. */
export async function timeOfSync(context: CheckContext): Promise<Truth> {
  const figures = await ownFigures(context)
  const averages = figures.map(({ sum, count }) => (sum / count) * 1000)
  const text = figures.map(
    ({ node, count }, index) =>
      `${node} ${Number(averages[index]?.toPrecision(2))} ms (${count} syncs)`,
  )
  const accepts = [...new Set(averages.flatMap(magnitudesOf).map(magnitudeName(TIMES, 0)))]
  return {
    accepts,
    inspect: READ,
    wrong: misjudged(TIMES, accepts, {
      below:
        'A lookup may be that fast. A sync starts iptables-restore, which reads tables from the kernel and writes them back.',
      above: 'That is what a sync of thousands of Services takes. This cluster has a few.',
    }),
    because: `The average is the sum of all durations divided by their count: ${text.join(', ')}.`,
  }
}

const textOf = (answer: { text: string } | undefined) => (answer ? [answer.text] : [])

/** Question: the rules of table nat that kube-proxy counts as its own. */
export async function rulesByOwnCount(context: CheckContext): Promise<Truth> {
  const { live, notes } = context
  // Only a running kube-proxy reports it: a capture has the note of the answer that was right then.
  if (!live) return { accepts: textOf(learningOf(STEP, notes).answered), inspect: READ }
  const figures = await ownFigures(context)
  const owned = figures.flatMap(({ owned }) => owned ?? [])
  if (owned.length === 0) throw new NotApplicable('this version of kube-proxy counts no rules')
  const isValueOf = (of: (figure: OwnFigures) => number | undefined) => (text: string) =>
    figures.some((figure) => of(figure) === Number(text))
  return {
    accepts: [...new Set(owned)].map(String),
    inspect: READ,
    wrong: [
      {
        when: isValueOf(({ written }) => written),
        because:
          'That is iptables_last: what the last sync wrote. Chains of Services that have not changed are not written again.',
      },
      {
        when: isValueOf(({ filter }) => filter),
        because:
          'That is table filter, in which kube-proxy rejects and drops. Service rules are in nat.',
      },
      {
        when: isValueOf(({ count }) => count),
        because: 'That is the number of syncs that were measured.',
      },
    ],
    because:
      'iptables_total is what kube-proxy is responsible for, without the jumps to its chains and the rules of other programs.',
  }
}
