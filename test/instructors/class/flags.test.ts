import { afterAll, describe, expect, test } from 'vitest'
import { EVERYTHING } from '../../../bench/made-class.ts'
import type { Capture } from '../../../cluster/capture-folder.ts'
import { type ClassKey, wordOf } from '../../../grading/class-key.ts'
import { classResult } from '../../../instructors/class/class-result.ts'
import { type JudgeFileOptions, judgeFile } from '../../../instructors/class/judge-file.ts'
import { taskFlags } from '../../../instructors/class/room-tasks.ts'
import { type Change, changedFile } from '../submission/made-submission.ts'
import { removeWritten } from '../submission/tar-bytes.ts'
import { judgedEntry } from './made-class.ts'

afterAll(removeWritten)

async function judged(files: readonly string[], options: JudgeFileOptions = {}) {
  const entries = await Promise.all(files.map((file) => judgeFile(file, options)))
  const { graded, refused } = classResult(entries, 1)
  expect(refused).toEqual([])
  return graded
}

const flagsOf = async (file: string, options: JudgeFileOptions = {}) =>
  (await judged([file], options)).flatMap(({ flags }) => flags)

describe('two learners', () => {
  test('one submission under two names has the same cluster and the same files; the points stay', async () => {
    const files = await Promise.all(['alice', 'mallory'].map((name) => changedFile(name)))
    const [alice, mallory] = await judged(files)
    expect(mallory?.score).toBe(alice?.score)
    expect(mallory?.flags.map(({ kind }) => kind)).toEqual(['same cluster', 'same captures'])
    expect(alice?.flags.map(({ text }) => text).join()).toContain('mallory')
  })

  test('other objects beside the files of another learner: the files are the same', async () => {
    const files = [await changedFile('alice'), await changedFile('mallory', { rewritten: ['uid'] })]
    const kinds = (await judged(files)).map(({ flags }) => flags.map(({ kind }) => kind))
    expect(kinds).toEqual([['same captures'], ['same captures']])
  })

  test('two separate clusters have nothing in common, although the same lab was solved', async () => {
    const files = await Promise.all(
      ['alice', 'bob'].map((name) => changedFile(name, { rewritten: EVERYTHING, laterMs: 60_000 })),
    )
    expect((await judged(files)).map(({ flags }) => flags)).toEqual([[], []])
  })
})

describe('the word of a class', () => {
  const key: ClassKey = { kind: 'class', secret: Buffer.from('the whole secret of a class') }
  const holding =
    (word: string) =>
    ({ objects }: Capture) => {
      const metadata = { name: 'class', namespace: 'default' }
      objects.items.push({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { word } })
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

  test('of another class is reported as another word', async () => {
    const other = ['All its captures have another word than that of this class.']
    expect(await wordFlags({ edit: holding('autumn') }, { word: 'spring' })).toEqual(other)
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

  test('a learner counts once, however the name is written and whichever submission has the variant', () => {
    const before = judgedEntry('alice')
    expect(texts([own('alice'), before, judgedEntry('bob')]).at(-1)).toEqual(['variant'])
    const others = ['bob', 'carol', 'dave'].map((learner) => judgedEntry(learner))
    expect(texts([own('Alice'), own('alice'), ...others]).flat()).not.toContain('variant')
  })

  test('a single learner with a variant causes no reports about the others, unless the instructor requires variants', () => {
    const entries = [own('alice'), judgedEntry('bob'), judgedEntry('carol'), judgedEntry('dave')]
    expect(texts(entries)).toEqual([[], [], [], []])
    expect(texts(entries, true)).toEqual([[], ['variant'], ['variant'], ['variant']])
  })
})

describe('the tasks of a room', () => {
  const nonce = '0123456789abcdef'
  const input = (learner: string, givenAt: number) => [
    { learner, task: 'nat-rules', lab: 2, nonce, givenAt },
  ]
  const noted = (objects: Capture['objects']): Capture['objects'] => {
    const data = { 'room-task.x': JSON.stringify({ nonce, answer: '7' }) }
    const isNotes = ({ kind, metadata }: { kind?: string; metadata?: { name?: string } }) =>
      kind === 'ConfigMap' && metadata?.name === 'lab-2'
    const items = (
      objects.items as { kind?: string; metadata?: { name?: string }; data?: object }[]
    ).filter((item) => !isNotes(item))
    const metadata = { name: 'lab-2', namespace: 'default' }
    return {
      ...objects,
      items: [...items, { kind: 'ConfigMap', apiVersion: 'v1', metadata, data }],
    } as Capture['objects']
  }
  const capture = (objects: Capture['objects']): Capture => ({ objects, nodes: [] })
  const empty = { items: [] } as unknown as Capture['objects']
  const flagsFor = (
    captures: [string, { takenAt: number; capture: Capture }][],
    learner = 'Alice',
  ) => taskFlags(captures, { learner: 'alice', lab: 2 }, input(learner, 1000))

  test('a capture after a task has its note, or is flagged; one before it need not', () => {
    expect(flagsFor([['final', { takenAt: 2000, capture: capture(noted(empty)) }]])).toEqual([])
    expect(flagsFor([['web', { takenAt: 500, capture: capture(empty) }]])).toEqual([])
    expect(flagsFor([['final', { takenAt: 2000, capture: capture(empty) }]])).toMatchObject([
      { kind: 'task', text: expect.stringContaining('Its captures final were taken after a task') },
    ])
    expect(flagsFor([['final', { takenAt: 2000, capture: capture(empty) }]], 'bob')).toEqual([])
  })
})
