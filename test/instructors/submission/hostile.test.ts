// What a hostile hand may hand in: each is refused in one sentence, quickly, and the rest of the
// class is graded.

import { hash } from 'node:crypto'
import { symlinkSync } from 'node:fs'
import { dirname } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import { type ClassKey, signatureOf } from '../../../grading/class-key.ts'
import { timeoutScale } from '../../../host/wait.ts'
import { type JudgedFile, judgeFile } from '../../../instructors/class/judge-file.ts'
import { gunzipFile } from '../../../instructors/submission/tar.ts'
import { SUBMISSION_LIMITS } from '../../../instructors/submission/untrusted-text.ts'
import { ALICE_POINTS, changed, changedFile } from './made-submission.ts'
import { fileOf, gzFileOf, removeWritten, tarOf } from './tar-bytes.ts'

afterAll(removeWritten)

const KEY: ClassKey = { kind: 'class', secret: Buffer.from('a secret of this class only') }

async function refusal(file: string, key?: ClassKey): Promise<string> {
  const judged = await judgeFile(file, { key })
  return 'refused' in judged ? judged.refused : `graded with ${judged.graded.score} points`
}

const isSentence = (text: string) => {
  expect(text).toMatch(/^[A-Z].*[.…)]$/)
  expect(text).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e]|\n| {4}at /)
  expect(text.length).toBeLessThan(400)
}

describe('the file itself', () => {
  const spaces = Buffer.alloc(14 * 2 ** 20, ' ')
  const bomb = () => gzFileOf([{ path: 'submission.json', content: spaces }])

  test.each<[what: string, file: () => string, says: RegExp]>([
    ['nothing', () => fileOf(Buffer.alloc(0)), /empty/],
    ['no such file', () => '/nowhere/x.labgrade', /no such file/],
    ['a folder', () => dirname(fileOf(Buffer.from('x'))), /not a regular file/],
    ['a device', () => '/dev/zero', /not a regular file/],
    ['no gzip', () => fileOf(Buffer.from('PK\u0003\u0004 this is a zip')), /not a gzip/],
    ['text', () => fileOf(Buffer.from('hello')), /not a gzip|truncated/],
    [
      'a gzip cut off',
      () => fileOf(gzipSync(tarOf([{ path: 'submission.json', content: '{}' }])).subarray(0, 60)),
      /truncated/,
    ],
    [
      'a gzip with a wrong sum',
      () => fileOf(corrupted(gzipSync(tarOf([{ path: 'submission.json' }])))),
      /damaged/,
    ],
    ['an empty archive', () => gzFileOf([]), /no submission.json/],
    ['an archive of something else', () => gzFileOf([{ path: 'readme.txt' }]), /"readme.txt"/],
    ['a bomb of one file', bomb, /more than 150 times its size/],
  ])('%s', async (_what, file, says) => {
    const output = await refusal(file())
    isSentence(output)
    expect(output).toMatch(says)
  })

  test('a symbolic link is not followed', async () => {
    const target = await changedFile('alice')
    const link = `${target}.link`
    symlinkSync(target, link)
    expect(await refusal(link)).toMatch(/not a regular file/)
  })

  test('a decompression bomb is refused without using memory or time', async () => {
    // Ninety megabytes in ninety kilobytes: the ratio ends it after the first ten.
    const file = gzFileOf(
      Array.from({ length: 6 }, (_, index) => ({ path: `captures/${index}`, content: spaces })),
    )
    const before = process.memoryUsage().rss
    const began = performance.now()
    expect(await refusal(file)).toMatch(/150 times its size/)
    expect(performance.now() - began).toBeLessThan(3000 * timeoutScale())
    expect(process.memoryUsage().rss - before).toBeLessThan(150 * 2 ** 20)
  })

  test('incompressible content above the size limit is refused', async () => {
    const file = fileOf(
      gzipSync(Buffer.from(Array.from({ length: 4000 }, (_, index) => (index * 7919) % 251))),
    )
    expect(() => gunzipFile(file, { ...SUBMISSION_LIMITS, packedBytes: 100 })).toThrow(
      /100 is the most/,
    )
    const good = await changedFile('alice')
    expect(() => gunzipFile(good, { ...SUBMISSION_LIMITS, unpackedBytes: 10_000 })).toThrow(
      /more than 10000 bytes/,
    )
  })
})

function corrupted(bytes: Buffer): Buffer {
  const copy = Buffer.from(bytes)
  copy.writeUInt32LE(0xdeadbeef, copy.length - 8)
  return copy
}

/** What alice's archive holds, by path. */
async function entriesOfAlice(): Promise<Map<string, Buffer>> {
  const tar = gunzipSync(await changed('alice'))
  const entries = new Map<string, Buffer>()
  for (let at = 0; at < tar.length - 1024; ) {
    const name = tar.toString('utf8', at, at + 100).replace(/\0.*$/s, '')
    const size = Number.parseInt(tar.toString('latin1', at + 124, at + 135), 8)
    entries.set(name, tar.subarray(at + 512, at + 512 + size))
    at += 512 + Math.ceil(size / 512) * 512
  }
  return entries
}

const archiveOf = (entries: ReadonlyMap<string, Buffer | string>) =>
  gzFileOf([...entries].map(([path, content]) => ({ path, content })))

/** Replaces the content of one entry of an archive, digests and all left as they were. */
async function tampered(path: string, edit: (text: string) => Buffer | string): Promise<string> {
  const entries = await entriesOfAlice()
  return archiveOf(new Map([...entries, [path, edit(String(entries.get(path)))]]))
}

/** With other objects in each capture, and their digests where they belong. */
async function withObjects(edit: (text: string) => string): Promise<string> {
  const entries = await entriesOfAlice()
  let manifest = String(entries.get('submission.json'))
  for (const [path, content] of entries) {
    if (!path.endsWith('/objects.json')) continue
    const edited = Buffer.from(edit(String(content)))
    manifest = manifest.replaceAll(hash('sha256', content), hash('sha256', edited))
    entries.set(path, edited)
  }
  return archiveOf(entries.set('submission.json', Buffer.from(manifest)))
}

describe('what it says', () => {
  const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`
  test.each<[what: string, path: string, edit: (text: string) => Buffer | string, says: RegExp]>([
    ['no JSON', 'submission.json', () => '{"schema":', /not JSON/],
    ['a number', 'submission.json', () => '7', /not what `make submit` writes/],
    ['nesting without end', 'submission.json', () => deep, /levels deep/],
    [
      '__proto__',
      'submission.json',
      (text) => text.replace('{', '{"__proto__":{"admin":true},'),
      /"__proto__"/,
    ],
    [
      '__proto__ in other letters',
      'submission.json',
      (text) => text.replace('{', '{"\\u005f_proto__":{},'),
      /"__proto__"/,
    ],
    ['no UTF-8', 'submission.json', () => Buffer.from([0x7b, 0xff, 0xfe, 0x7d]), /not UTF-8/],
    ['a NUL byte', 'submission.json', () => '{\u0000}', /NUL byte/],
    [
      'a line without end',
      'submission.json',
      () => `"${'x'.repeat(2 ** 22 + 10)}"`,
      /line of 4194316 bytes/,
    ],
    [
      'another schema',
      'submission.json',
      (text) => text.replace('submission/v1', 'submission/v9'),
      /"schema" is wrong/,
    ],
    [
      'a learner who is a path',
      'submission.json',
      (text) => text.replace('"learner": "alice"', '"learner": "../alice"'),
      /"learner" is wrong/,
    ],
    [
      'a learner who is a formula',
      'submission.json',
      (text) => text.replace('"learner": "alice"', '"learner": "=cmd|x"'),
      /"learner" is wrong/,
    ],
    [
      'a node that climbs',
      'submission.json',
      (text) => text.replace(/nodes\/[^/]+\//, 'nodes/../'),
      /is wrong/,
    ],
    [
      'a lab that is not here',
      'submission.json',
      (text) => text.replace('"lab": 2', '"lab": 98'),
      /lab 98, which does not exist/,
    ],
    [
      'a capture described twice',
      'submission.json',
      (text) => text.replace('"id": "ipvs"', '"id": "web"'),
      /twice|does not name|not in it/,
    ],
    [
      'a step on a capture that is not there',
      'submission.json',
      (text) => text.replace('"capture": "flush"', '"capture": "flash"'),
      /"flash", which is not in it/,
    ],
    [
      'an altered capture',
      'captures/ipvs/objects.json',
      (text) => text.replace('ipvs', 'IPVS'),
      /missing or was altered/,
    ],
  ])('%s', async (_what, path, edit, says) => {
    const output = await refusal(await tampered(path, edit))
    isSentence(output)
    expect(output).toMatch(says)
  })

  test('objects that are not a list, or contain NUL or __proto__, are refused', async () => {
    const printed = await changedFile('alice', {
      text: (text, path) => (path === 'objects.json' ? text : `${text}\u0000`),
    })
    expect(await refusal(printed)).toMatch(/NUL byte/)
    const objects = (content: string) => withObjects(() => content).then((file) => refusal(file))
    expect(await objects('{"items": 7}')).toMatch(/not a list of objects/)
    expect(await objects('{"items": [\u0000]}')).toMatch(/NUL byte/)
    expect(await objects('{"items": [}')).toMatch(/not JSON/)
    const proto = '{"kind":"Pod","__proto__":{"admin":true}}'
    expect(await objects(`{"items": [${proto}]}`)).toMatch(/__proto__/)
    expect(
      await refusal(await withObjects((text) => text.replace(',\n', `,\n${proto},\n`))),
    ).toMatch(/__proto__/)
    expect(({} as Record<string, unknown>).admin).toBeUndefined()
  })

  test('an unreadable capture gives no points and does not affect the others', async () => {
    const file = await changedFile('alice', {
      text: (text, path) => (path.endsWith('iptables-save') ? '*nat\nnonsense' : text),
    })
    const judged = await judgeFile(file)
    expect('graded' in judged && [judged.graded.score < 30, judged.graded.maxScore]).toEqual([
      true,
      ALICE_POINTS,
    ])
  })
})

describe('signatures', () => {
  test('signed by its learner: graded; taken off, altered, or made by another: refused', async () => {
    const signed = await changedFile('alice', { key: KEY })
    expect(await refusal(signed, KEY)).toBe(`graded with ${ALICE_POINTS} points`)
    expect(await refusal(await changedFile('alice'), KEY)).toMatch(
      /not signed, though this class has a key/,
    )
    expect(
      await refusal(signed, { kind: 'class', secret: Buffer.from('the key of another class') }),
    ).toMatch(/not one of "alice"/)
    const later = await changed('alice', {
      key: KEY,
      manifest: (manifest) => {
        manifest.submittedAt = '2030-01-01T00:00:00.000Z'
      },
    })
    expect(await refusal(fileOf(later), KEY)).toBe(`graded with ${ALICE_POINTS} points`)
  })

  test("alice's signature under bob's name, and bob's own key for alice's work", async () => {
    const signed = gunzipSync(await changed('alice', { key: KEY }))
    const replayed = Buffer.from(
      signed.toString('latin1').replace('"learner": "alice"', '"learner": "alicf"'),
      'latin1',
    )
    expect(await refusal(fileOf(gzipSync(replayed)), KEY)).toMatch(/not one of "alicf"/)
    const bobs: ClassKey = { kind: 'learner', learner: 'bob', secret: Buffer.alloc(32, 1) }
    await expect(changed('alice', { key: bobs })).rejects.toThrow(/bob's/)
    expect(() => signatureOf(bobs, 'alice', Buffer.from(''))).toThrow(/can't sign for "alice"/)
  })

  test('a renamed copy is graded for the learner who signed it, with a flag', async () => {
    const file = fileOf(await changed('alice', { key: KEY }), 'mallory-lab2.labgrade')
    const judged = await judgeFile(file, { key: KEY })
    expect(
      'graded' in judged && [judged.graded.learner, judged.graded.flags.map(({ kind }) => kind)],
    ).toEqual(['alice', ['class', 'name']])
  })
})

test('any change to a good file is graded or refused in one sentence', async () => {
  const good = await changed('alice')
  const tar = gunzipSync(good)
  const judgedOf = async (bytes: Buffer): Promise<JudgedFile> => judgeFile(fileOf(bytes))
  const packed = fc.array(fc.tuple(fc.nat(good.length - 1), fc.nat(255)), {
    minLength: 1,
    maxLength: 4,
  })
  await fc.assert(
    fc.asyncProperty(packed, async (changes) => {
      const bytes = Buffer.from(good)
      for (const [at, byte] of changes) bytes[at] = byte
      const judged = await judgedOf(bytes)
      if ('refused' in judged) isSentence(judged.refused)
    }),
    { numRuns: 25 },
  )
  const inside = fc.array(fc.tuple(fc.nat(60_000), fc.nat(255)), { minLength: 1, maxLength: 6 })
  await fc.assert(
    fc.asyncProperty(inside, async (changes) => {
      const bytes = Buffer.from(tar)
      for (const [at, byte] of changes) bytes[at] = byte
      const judged = await judgedOf(gzipSync(bytes, { level: 1 }))
      if ('refused' in judged) isSentence(judged.refused)
    }),
    { numRuns: 25 },
  )
})

test('captures with random content are judged without a crash', async () => {
  const nonsense = fc.oneof(
    fc.string({ maxLength: 200 }),
    fc.json({ maxDepth: 4 }),
    fc.constantFrom(
      '*nat\n:A - [0:0]\n-A A -j A\nCOMMIT\n',
      'create KUBE-X hash:ip\n',
      '-A -t\n',
      '[{}]',
      '\u001b[2J',
    ),
  )
  await fc.assert(
    fc.asyncProperty(nonsense, fc.nat(4), async (content, which) => {
      const names = [
        'iptables-save',
        'ipset-save',
        'ipvsadm-save',
        'ip-addr.json',
        'kube-proxy.log',
      ]
      const bytes = await changed('alice', {
        text: (text, path) =>
          path.endsWith(names[which] ?? '') ? content.replaceAll('\u0000', '') : text,
      })
      const judged = await judgeFile(fileOf(bytes))
      if ('refused' in judged) return isSentence(judged.refused)
      for (const { reason = '', finding } of judged.graded.steps)
        expect(`${reason}${finding?.actual}`).not.toContain('\u001b')
    }),
    { numRuns: 15 },
  )
})
