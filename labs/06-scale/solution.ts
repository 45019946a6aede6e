// The reference solution of lab 6, played by `make solve-6` and, without a terminal, by
// `make lab-6`.

import type { LabBench } from '../../course/lab-bench.ts'
import type { LabSolution } from '../../course/lab-solution.ts'
import { lastHostRun, lastRun, measureHere, measureOnHost } from '../../course/scale/measure.ts'
import { lastServiceSlowdown } from '../../course/scale/results.ts'
import {
  answers,
  mode,
  predictions,
  readsOnly,
  typing,
  withVariables,
} from '../../course/typed-commands.ts'
import { Unsupported } from '../../embedded/index.ts'

const LAB = 6

const predicted = predictions(LAB)
const answer = answers(LAB)
const onAnyNode = withVariables(async () => ({}))
const READ = 'curl -s localhost:10249/metrics | grep proxy_rules_iptables'
/** A prediction of a learner who knows labs 1 and 2, typed before the figures are looked at. */
const foretold = (step: string, text: string) => predicted(step, `'${text}'`, text)

/**
 * Where a kernel can't run, the steps that it measures are not applicable, and the checks give the
 * reason.
 */
const measuring =
  (measure: typeof measureHere | typeof measureOnHost) =>
  async ({ cluster, client, progress }: LabBench): Promise<void> => {
    try {
      await measure(cluster, client, progress)
    } catch (error) {
      if (!(error instanceof Unsupported)) throw error
      progress.note(error.message)
    }
  }

export const solution: LabSolution = {
  steps: {
    measured: typing(foretold('measured', 'rules, change, new-connections, cpu'), {
      commands: ['make measure'],
      play: measuring(measureHere),
    }),
    entries: predicted(
      'entries',
      `"$(make -s measure SHOW=rules | awk '$1 == "Services" {print $NF + 1}')"`,
      async (bench) => {
        const { iptables = [] } = (await lastRun(bench.cluster, bench.client)) ?? {}
        return String((iptables.at(-1)?.services ?? 0) + 1)
      },
    ),
    sets: foretold('sets', 'set-members, virtual-servers, real-servers'),
    'rules-each': {
      commands: [
        `make answer LAB=6 Q=rules-each A="$(make -s measure SHOW=1 | awk '$1 == "Services" {services = $NF - $2} $1 == "rules" {print ($NF - $3) / services}')"`,
      ],
      play: async (bench) => {
        const { iptables = [] } = (await lastRun(bench.cluster, bench.client)) ?? {}
        const [first, last] = [iptables[0], iptables.at(-1)]
        if (!first || !last) return
        const each = (last.rules - first.rules) / (last.services - first.services)
        await bench.answer(LAB, 'rules-each', String(each))
      },
    },
    change: foretold('change', '100x'),
    'own-sync': typing(
      mode('iptables'),
      foretold('own-sync', '100ms'),
      onAnyNode.printed(answer, 'own-sync', '', `"${READ} | grep 'total.*nat' | cut -d' ' -f2"`),
    ),
    lookup: foretold('lookup', '10ns'),
    'turning-point': {
      commands: [
        `make answer LAB=6 Q=turning-point A="$(make -s measure SHOW=1 | awk '$1 == "Services" {n = NF - 1; for (i = 1; i <= n; i++) size[i] = $(i + 1)} $1 == "slower" {for (i = 1; i <= n; i++) if ($(NF - n + i) > 10) {print size[i]; exit}; print "none"}')"`,
      ],
      play: async (bench) => {
        const run = await lastRun(bench.cluster, bench.client)
        if (!run) return
        const first = lastServiceSlowdown(run.iptables).find(({ part }) => part > 0.1)
        await bench.answer(
          LAB,
          'turning-point',
          first === undefined ? 'none' : String(first.services),
        )
      },
    },
    'keep-alive': readsOnly,
    cpu: readsOnly,
    nftables: typing(
      foretold('nftables', 'rules, change'),
      { commands: ['make measure NFT=1 || true'], play: measuring(measureOnHost) },
      {
        commands: [
          `make answer LAB=6 Q=nftables A="$(make -s measure NFT=1 SHOW=rules | awk '$1 == "Services" {services = $NF - $2} $1 == "nftables" && !shown++ {print ($NF - $2) / services}')"`,
        ],
        play: async (bench) => {
          const { curves = [] } = (await lastHostRun(bench.cluster, bench.client)) ?? {}
          const { points = [] } = curves.find(({ curve }) => curve === 'nftables') ?? {}
          const [first, last] = [points[0], points.at(-1)]
          if (!first || !last) return
          const each = (last.rules - first.rules) / (last.services - first.services)
          await bench.answer(LAB, 'nftables', String(each))
        },
      },
    ),
  },

  async reset(bench) {
    await bench.delete('ConfigMap', `lab-${LAB}`)
  },
}
