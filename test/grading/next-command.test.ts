// The last line of a failure: a command that comes from the difference, or the step's hints where
// the command would be the solution.

import { describe, expect, test } from 'vitest'
import * as z from 'zod'
import type { Capture } from '../../cluster/capture-folder.ts'
import { loadSpec } from '../../grading/grader.ts'
import { judgeRound } from '../../grading/judge.ts'
import { findStep, readLab } from '../../grading/lab-definition.ts'
import { findingLines, findingParts } from '../../grading/learner-report.ts'
import { findingOf } from '../../grading/report.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { files, textOf } from '../architecture/import-graph.ts'
import { breakFile, flushedCapture } from './solved-capture.ts'

const NODE = 'k8s-guide-worker'
const lab = readLab(2)
const good = flushedCapture()

/** What a step of lab 2 says of a capture, and the last line that it ends with. */
async function toldOf(capture: Capture, step: string): Promise<{ text: string; last: string }> {
  const [outcome] = await judgeRound(await loadSpec(lab), new Snapshot(capture), undefined, [step])
  if (!outcome?.failure)
    throw new Error(`step ${step} has not failed: ${outcome?.verdict} ${outcome?.reason ?? ''}`)
  const lines = findingLines(2, step, findingOf(findStep(lab, step), outcome.failure))
  return { text: lines.join('\n'), last: lines.at(-1)?.trim() ?? '' }
}

const brokenBy = (file: string, edit: (text: string) => string) => breakFile(good, NODE, file, edit)
const item = z.looseObject({
  kind: z.string(),
  metadata: z.looseObject({ name: z.string(), namespace: z.string().optional() }),
  /** Of an EndpointSlice. */
  endpoints: z.array(z.looseObject({ nodeName: z.string().optional() })).optional(),
})
type Item = z.infer<typeof item>
const withObjects = (edit: (items: Item[]) => Item[]): Capture => ({
  ...good,
  objects: { ...good.objects, items: edit(z.array(item).parse(good.objects.items)) },
})
const isWeb = ({ kind, metadata }: Item) => kind === 'Service' && metadata.name === 'web'

describe('a difference on a node is reported with advice', () => {
  test.each<[string, string, string, (text: string) => string, RegExp]>([
    [
      'a flushed KUBE-SERVICES',
      'sets',
      'iptables-save',
      (text) => text.replace(/^(\[\d+:\d+\] )?-A KUBE-SERVICES .*\n/gm, ''),
      /^make ipvs FORCE=1$/,
    ],
    [
      'a member that is missing',
      'sets',
      'ipset-save',
      (text) => text.replace(/^add KUBE-CLUSTER-IP .*\n/m, ''),
      /^make ipvs FORCE=1$/,
    ],
    [
      'another weight',
      'virtual-servers',
      'ipvsadm-save',
      (text) => text.replace(/-m -w 1$/m, '-m -w 5'),
      /^make ipvs FORCE=1$/,
    ],
    [
      'a jump that is not first',
      'prerouting',
      'iptables-save',
      (text) =>
        text.replace(
          /^(?:\[\d+:\d+\] )?-A PREROUTING /m,
          '-A PREROUTING -p tcp -m tcp --dport 1 -j ACCEPT\n$&',
        ),
      new RegExp(`^make exec NODE=${NODE} CMD='iptables -t nat -D PREROUTING .*-j KUBE-SERVICES'$`),
    ],
    [
      'a chain that iptables mode left',
      'flush',
      'iptables-save',
      (text) => text.replace(/^\*nat\n/m, '*nat\n:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]\n'),
      /^make flush-nat$/,
    ],
  ])('%s', async (_what, step, file, edit, last) => {
    expect((await toldOf(brokenBy(file, edit), step)).last).toMatch(last)
  })

  test('a virtual server without a Service is not attributed to another mode, even if leftovers of one exist', async () => {
    const left = brokenBy('iptables-save', (text) =>
      text.replace(/^\*nat\n/m, '*nat\n:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]\n'),
    )
    const both = breakFile(
      left,
      NODE,
      'ipvsadm-save',
      (text) => `${text}-A -t 10.96.7.7:80 -s wlc\n`,
    )
    expect((await toldOf(both, 'virtual-servers')).last).toBe('make ipvs FORCE=1')
  })

  test('the advice for a foreign rule lists rules with their numbers', async () => {
    const rule =
      '*mangle\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -d 10.96.0.0/16 -j DROP\nCOMMIT\n'
    const { last } = await toldOf(
      brokenBy('iptables-save', (text) => text.replace(/^\*mangle$[\s\S]*?^COMMIT\n/m, '') + rule),
      'prerouting',
    )
    expect(last).toContain('iptables -t mangle -nL PREROUTING --line-numbers')
  })
})

describe('a step that was not started', () => {
  test('is reported with its first hint, without the solution', async () => {
    const { text, last } = await toldOf(
      withObjects((items) => items.filter((item) => !isWeb(item))),
      'web',
    )
    expect(last).toBe('make hint LAB=2 STEP=web')
    expect(text).toContain('The lab needs a Deployment of nginx')
    expect(text).not.toContain('make web')
  })
})

describe('a command is only what a check has declared as one', () => {
  const step = findStep(lab, 'web')
  const failure = { inspect: 'kubectl get services', expected: 'a Service', actual: 'none' }

  test.each(['make ipvs', 'kubectl apply -f a.yaml', 'Run `make ipvs`.', 'make ipvs, then wait'])(
    'the hint "%s" remains a text, in the terminal and on the page',
    (hint) => {
      const finding = findingOf(step, { ...failure, hint })
      expect(finding).toMatchObject({ hint, next: undefined })
      const parts = findingParts(2, step.id, finding)
      expect(parts.filter(({ text }) => text.includes(hint))).toEqual([
        { label: 'next', text: hint },
      ])
      expect(parts.at(-1)?.text).toBe('make hint LAB=2 STEP=web')
    },
  )

  test('a declared one is the last line, after the first hint of the step', () => {
    const finding = findingOf(step, { ...failure, next: 'make flush-nat' })
    expect(finding).toMatchObject({ hint: step.hints[0], next: 'make flush-nat' })
    expect(findingParts(2, step.id, finding).at(-1)).toEqual({
      label: '',
      text: 'make flush-nat',
      whole: true,
    })
  })

  test('no check puts a command into a hint: it would not be offered as one', () => {
    const isCommand = /\bhint(?:: |\b.* =\s*)['"`](?:make|kubectl|ip|iptables|ipvsadm) [^'"`]*/g
    const sources = files.filter((file) => /^(?:checks|grading|course)\//.test(file))
    expect(sources.length).toBeGreaterThan(100)
    const found = sources.flatMap((file) =>
      (textOf(file).match(isCommand) ?? []).map((text) => `${file}: ${text}`),
    )
    expect(found).toEqual([])
  })
})

describe('near misses', () => {
  const changed = (edit: (service: Item) => void) =>
    withObjects((items) => {
      for (const item of items) if (isWeb(item)) edit(item)
      return items
    })

  test('the right Service in another namespace', async () => {
    const { text } = await toldOf(
      changed(({ metadata }) => {
        metadata.namespace = 'shop'
      }),
      'web',
    )
    expect(text).toContain('one in namespace "shop"')
  })

  test('the right Service under another name', async () => {
    const { text } = await toldOf(
      changed(({ metadata }) => {
        metadata.name = 'www'
      }),
      'web',
    )
    expect(text).toContain('but "www", which selects the Pods')
  })

  test('a Deployment that was scaled down, even to no Pod at all: how to scale it', async () => {
    const { text, last } = await toldOf(
      withObjects((items) => {
        for (const item of items) if (item.kind === 'EndpointSlice') item.endpoints = []
        const metadata = { name: 'web', namespace: 'default' }
        return [...items, { kind: 'Deployment', metadata, spec: { replicas: 0 } }]
      }),
      'web',
    )
    expect(text).toContain('Deployment web has 0 of the 2 Pods')
    expect(last).toBe('kubectl scale deployment web --replicas=2')
  })

  test('both Pods on one node: which one to delete', async () => {
    const nodeName = 'k8s-guide-worker'
    const { text, last } = await toldOf(
      withObjects((items) => {
        for (const { endpoints = [] } of items)
          for (const endpoint of endpoints) endpoint.nodeName = nodeName
        return items
      }),
      'web',
    )
    expect(text).toContain(`all on ${nodeName}`)
    expect(last).toMatch(/^kubectl delete pod web-/)
  })
})
