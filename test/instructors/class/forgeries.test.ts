import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { EVERYTHING, type Rewritten } from '../../../bench/made-class.ts'
import type { Capture } from '../../../cluster/capture-folder.ts'
import { type ClassKey, classMark, wordOf } from '../../../grading/class-key.ts'
import { classResult } from '../../../instructors/class/class-result.ts'
import {
  copyFlags,
  LEAST_SHARED,
  printsOf,
  reuseOfPublished,
} from '../../../instructors/class/copies.ts'
import { DRAWN_KINDS, type DrawnKind } from '../../../instructors/class/drawn-values.ts'
import { historyFlags } from '../../../instructors/class/history.ts'
import {
  type JudgeFileOptions,
  judgeFile,
  wordFlags,
} from '../../../instructors/class/judge-file.ts'
import {
  gatherPublished,
  PUBLISHED_FILE,
  readPublishedValues,
} from '../../../instructors/class/published.ts'
import type { Flag } from '../../../instructors/class/result.ts'
import { readSubmission } from '../../../instructors/submission/read-submission.ts'
import { type Change, changedFile, SOLVED } from '../submission/made-submission.ts'
import { gradedEntry, judgedEntry } from './made-class.ts'

const solved = readdirSync(SOLVED).filter((name) => name.endsWith('.labgrade'))
const KINDS = Object.keys(DRAWN_KINDS) as DrawnKind[]

async function judged(files: readonly string[], options: JudgeFileOptions = {}) {
  const entries = await Promise.all(files.map((file) => judgeFile(file, options)))
  const { graded, refused } = classResult(entries, 1)
  expect(refused).toEqual([])
  return graded
}

/** The flags of one submission, by itself, without the time that judging its steps takes. */
async function flagsOf(file: string, options: JudgeFileOptions = {}): Promise<Flag[]> {
  const submission = await readSubmission(file, options.key)
  const { learner, seed } = submission.manifest
  const prints = printsOf([...submission.captures.values()])
  return [
    ...copyFlags([{ graded: gradedEntry(learner), seed, prints }]).flat(),
    ...wordFlags(submission.captures, learner, options),
    ...historyFlags(submission, Date.now()),
  ]
}

describe('what this repository publishes', () => {
  test('is on the list of published values; `node --import tsx scripts/published-values.ts` writes it', async () => {
    const listed = readPublishedValues()
    for (const [source, kinds] of Object.entries(await gatherPublished()))
      for (const [kind, digests] of Object.entries(kinds)) {
        const known = new Set(listed[source]?.[kind as DrawnKind]?.split(' '))
        const missing = digests.split(' ').filter((digest) => !known.has(digest))
        expect(missing, `${kind} of ${source} in ${PUBLISHED_FILE}`).toEqual([])
      }
  })

  test.each(solved)(
    '%s under another name is reported, with its evidence; the points stay',
    async (name) => {
      const [entry] = await judged([
        await changedFile('mallory', { source: await readSubmission(join(SOLVED, name)) }),
      ])
      expect(entry?.score).toBeGreaterThan(50)
      const lab = /\d/.exec(name)?.[0]
      expect(entry?.flags.map(({ text }) => text).join('\n')).toMatch(
        new RegExp(
          `looks reused from the repository's solved example of lab ${lab}: \\d+ UIDs, .*MAC addresses`,
        ),
      )
    },
  )

  const strengths: [what: string, rewritten: readonly Rewritten[]][] = [
    ['UIDs, dates and counters', ['uid', 'dates', 'counters']],
    ['and what a new run has', ['uid', 'dates', 'counters', 'ages', 'log', 'flow']],
    [
      'and generated names',
      ['uid', 'dates', 'counters', 'ages', 'log', 'flow', 'name', 'container'],
    ],
    [
      'all but MACs and initvals',
      EVERYTHING.filter((kind) => kind !== 'mac' && kind !== 'initval'),
    ],
  ]
  test.each(strengths)('repacked with new %s', async (_what, rewritten) => {
    const file = await changedFile('mallory', { rewritten, laterMs: 40 * 60_000 })
    expect((await flagsOf(file)).map(({ kind }) => kind)).toContain('reused')
  })

  test.each(KINDS.filter((kind) => kind !== 'boot'))(
    'if only its %s remain, it is still reported',
    async (kept) => {
      const file = await changedFile('mallory', {
        rewritten: EVERYTHING.filter((kind) => kind !== kept),
        laterMs: 40 * 60_000,
      })
      const reused = (await flagsOf(file)).find(({ kind }) => kind === 'reused')
      expect(reused?.text).toMatch(new RegExp(`lab 2: \\d+ ${DRAWN_KINDS[kept]} are the same`))
    },
  )

  test(`one shared value is not reported, ${LEAST_SHARED} are`, () => {
    const [source = '', kinds = {}] = Object.entries(readPublishedValues())[0] ?? []
    const [a = '', b = ''] = kinds.uid?.split(' ') ?? []
    expect(reuseOfPublished(new Set([`uid ${a}`, 'uid x']))).toBeUndefined()
    const both = [`uid ${a}`, `uid ${b}`]
    expect(reuseOfPublished(new Set(both))).toEqual({ source, values: both })
  })
})

describe('two learners', () => {
  test.each(KINDS)('%s in common, and nothing else', (kind) => {
    const drawn = [`${kind} one`, `${kind} two`]
    const { graded } = classResult(
      [
        judgedEntry('alice', { prints: { drawn } }),
        judgedEntry('bob', { prints: { drawn } }),
        judgedEntry('carol', { prints: { drawn: [`${kind} one`, `${kind} three`] } }),
      ],
      1,
    )
    const [alice, bob, carol] = graded.map(({ flags }) => flags.map(({ text }) => text).join())
    expect(alice).toContain(
      `from the submission of bob, or that one from it: 2 ${DRAWN_KINDS[kind]} are the same`,
    )
    expect(bob).toContain('alice')
    expect(carol).toBe('')
  })

  test('two separate clusters share no value, although they solved the same lab', async () => {
    const files = await Promise.all(
      ['alice', 'bob'].map((name) => changedFile(name, { rewritten: EVERYTHING, laterMs: 60_000 })),
    )
    expect((await judged(files)).map(({ flags }) => flags)).toEqual([[], []])
  })
})

describe('captures that contradict each other', () => {
  const nextBoot = '11111111-2222-4333-8444-555555555555'
  const boots =
    (boot: (index: number) => string) => (capture: Capture, _id: string, index: number) => {
      for (const { files } of capture.nodes) files.set('boot', boot(index))
    }
  const bootText = (id: string, uptime: number, btime: number) =>
    `boot_id ${id}\nuptime ${uptime}\nbtime ${btime}\n`
  const STARTED = Date.parse('2026-11-21T07:39:10Z') / 1000
  const ID = '00000000-1111-4222-8333-444444444444'

  test.each<[what: string, forgery: Change, says: RegExp]>([
    [
      'a script that gives each capture other MAC addresses',
      { rewritten: ['mac'], forgetful: true },
      /interface veth\w{8} of \S+ has another MAC address/,
    ],
    [
      'new UIDs beside old interfaces',
      { rewritten: ['uid'] },
      /No interface .* has the name that goes with the UID/,
    ],
    [
      'resourceVersions that shrink',
      {
        edit: ({ objects }, _id, index) => {
          for (const item of objects.items as { metadata: { resourceVersion: string } }[])
            item.metadata.resourceVersion = String(5000 - 10 * index)
        },
      },
      /resourceVersion of .* is smaller/,
    ],
    [
      'creation dates that change',
      {
        edit: ({ objects }, _id, index) => {
          for (const item of objects.items as { metadata: { creationTimestamp: string } }[])
            item.metadata.creationTimestamp = new Date((STARTED - index) * 1000).toISOString()
        },
      },
      /has two different creation dates/,
    ],
    [
      'counters at random',
      {
        edit: ({ nodes }) => {
          for (const { files } of nodes)
            files.set(
              'iptables-save',
              (files.get('iptables-save') ?? '').replace(/\[\d+:\d+\]/g, '[977:1432]'),
            )
        },
      },
      /no 977 packets have 1432 bytes/,
    ],
    [
      'objects of a later week beside old logs',
      {
        edit: ({ nodes }) => {
          for (const { files } of nodes)
            files.set(
              'kube-proxy.log',
              (files.get('kube-proxy.log') ?? '').replaceAll(/^([IWEF])\d{4}/gm, '$11113'),
            )
        },
      },
      /log of \S+ begins on 2026-11-13, but its Pod was made on 2026-11-21/,
    ],
    [
      'rules that were saved after the capture',
      {
        edit: ({ nodes }) => {
          for (const { files } of nodes)
            files.set(
              'iptables-save',
              (files.get('iptables-save') ?? '').replaceAll(/Nov 21 /g, 'Nov 29 '),
            )
        },
      },
      /were saved on 2026-11-29, but the capture is of 2026-11-21/,
    ],
    [
      'an uptime that falls',
      { edit: boots((index) => bootText(ID, 500 - index, STARTED)) },
      /uptime of \S+ went back/,
    ],
    [
      'an uptime faster than the clock',
      { edit: boots((index) => bootText(ID, 10 + 9000 * index, STARTED)) },
      /grew by/,
    ],
    [
      'another kernel under the same objects',
      { edit: boots((index) => bootText(index > 3 ? nextBoot : ID, 10, STARTED)) },
      /has another kernel/,
    ],
    [
      'a kernel that started a week before',
      { edit: boots((index) => bootText(ID, 10 + index, STARTED - 7 * 86_400)) },
      /the kernel started at .*, but the first object/,
    ],
  ])('%s', async (_what, forgery, says) => {
    const texts = (await flagsOf(await changedFile('mallory', forgery))).flatMap(
      ({ kind, text }) => (kind === 'history' || kind === 'clock' ? [text] : []),
    )
    expect(texts.join('\n')).toMatch(says)
  })

  test.each(solved)('%s, as recorded, has no contradictions', async (name) => {
    expect((await flagsOf(join(SOLVED, name))).map(({ kind }) => kind)).toEqual(['reused'])
  })

  test('a cluster that was started again between two moments, and one of kind whose machine was', async () => {
    const later = (capture: Capture, from: number, index: number) => {
      if (index <= from) return
      for (const item of capture.objects.items as { kind: string; metadata: { uid: string } }[])
        if (item.kind === 'Node') item.metadata.uid = `other ${item.metadata.uid}`
    }
    const clusterAgain: Change = {
      edit: (capture, id, index) => {
        boots((place) =>
          bootText(place > 4 ? nextBoot : ID, place > 4 ? place - 4 : 10 + place, STARTED),
        )(capture, id, index)
        later(capture, 4, index)
      },
    }
    const machineAgain: Change = {
      edit: (capture, id, index) => {
        boots((place) =>
          bootText(place > 4 ? nextBoot : ID, place > 4 ? place - 4 : 10 + place, STARTED + place),
        )(capture, id, index)
        for (const item of capture.objects.items as {
          kind: string
          spec: { providerID?: string }
        }[])
          if (item.kind === 'Node') item.spec.providerID = 'kind://docker/kind/node'
      },
    }
    for (const honest of [clusterAgain, machineAgain]) {
      const flags = await flagsOf(await changedFile('alice', honest))
      expect(flags.filter(({ kind }) => kind === 'history')).toEqual([])
    }
  })
})

describe('the word of a class', () => {
  const key: ClassKey = { kind: 'class', secret: Buffer.from('the whole secret of a class') }
  const ID = '00000000-1111-4222-8333-444444444444'
  const holding =
    (word: string, mark = classMark(word, ID)) =>
    ({ objects, nodes }: Capture) => {
      const metadata = { name: 'class', namespace: 'default' }
      objects.items.push({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { word } })
      for (const { files } of nodes) files.set('boot', `boot_id ${ID}\nuptime 5.0\nclass ${mark}\n`)
    }
  const wordFlags = async (forgery: Change, options: JudgeFileOptions) => {
    const flags = await flagsOf(await changedFile('alice', forgery), options)
    return flags.filter(({ kind }) => kind === 'class').map(({ text }) => text)
  }

  test('is not checked if the class has none', async () => {
    expect(await wordFlags({}, {})).toEqual([])
    expect(await wordFlags({ edit: holding('spring') }, {})).toEqual([])
  })

  test('must be in every capture', async () => {
    expect(await wordFlags({ edit: holding('spring') }, { word: 'spring' })).toEqual([])
    expect(await wordFlags({}, { word: 'spring' })).toEqual([
      'All its captures lack the word of this class.',
    ])
    const late: Change = { edit: (capture, _id, index) => index > 1 && holding('spring')(capture) }
    expect(await wordFlags(late, { word: 'spring' })).toEqual([
      expect.stringMatching(/^Its captures \S+, \S+ lack the word of this class\.$/),
    ])
  })

  test('of another class, or of another boot, is reported as another word', async () => {
    const other = ['All its captures have another word than that of this class.']
    expect(await wordFlags({ edit: holding('autumn') }, { word: 'spring' })).toEqual(other)
    const moved = holding('spring', classMark('spring', '99999999-1111-4222-8333-444444444444'))
    expect(await wordFlags({ edit: moved }, { word: 'spring' })).toEqual(other)
  })

  test('is derived from the key of the class, a different one for each learner', async () => {
    expect(await wordFlags({ edit: holding(wordOf(key, 'alice')), key }, { key })).toEqual([])
    expect(await wordFlags({ edit: holding(wordOf(key, 'bob')), key }, { key })).toHaveLength(1)
    expect(await wordFlags({ key }, { key })).toEqual([
      'All its captures lack the word of this class.',
    ])
    expect(await wordFlags({ edit: holding('spring'), key }, { key, word: 'spring' })).toEqual([])
  })
})

describe('variants', () => {
  const texts = (entries: Parameters<typeof classResult>[0], variants = false) =>
    classResult(entries, 1, new Date(), { variants }).graded.map(({ flags }) =>
      flags.map(({ kind }) => kind),
    )
  const own = (learner: string) => judgedEntry(learner, { prints: { learners: [learner] } })

  test('a submission without a variant is reported if the class uses variants', () => {
    expect(texts([own('alice'), judgedEntry('bob')])).toEqual([[], ['variant']])
    expect(texts([own('alice'), own('bob'), judgedEntry('carol')])).toEqual([[], [], ['variant']])
  })

  test('a single learner with a variant causes no reports about the others, unless the instructor requires variants', () => {
    const entries = [own('alice'), judgedEntry('bob'), judgedEntry('carol'), judgedEntry('dave')]
    expect(texts(entries)).toEqual([[], [], [], []])
    expect(texts(entries, true)).toEqual([[], ['variant'], ['variant'], ['variant']])
  })
})
