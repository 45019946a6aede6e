import { gunzipSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readTar, type TarEntry, writeTarGz } from '../../../instructors/submission/tar.ts'
import {
  SUBMISSION_LIMITS,
  SubmissionRefusal,
} from '../../../instructors/submission/untrusted-text.ts'
import { entryBytes, type RawEntry, tarOf } from './tar-bytes.ts'

const LIMITS = { ...SUBMISSION_LIMITS, entries: 50, fileBytes: 10_000 }

const entriesOf = (bytes: Buffer): TarEntry[] =>
  [...readTar(bytes, LIMITS)].map((entry) => ({ ...entry, content: Buffer.from(entry.content) }))

function refusalOf(entries: readonly RawEntry[]): string {
  try {
    entriesOf(tarOf(entries))
    return 'read'
  } catch (error) {
    return error instanceof SubmissionRefusal ? error.message : `no refusal: ${error}`
  }
}

const pathPart = fc.stringMatching(/^[a-z0-9][a-z0-9._-]{0,20}$/)
const files = fc.uniqueArray(
  fc.record({
    path: fc
      .array(pathPart, { minLength: 1, maxLength: 4 })
      .map((parts) => `captures/${parts.join('/')}`),
    content: fc.uint8Array({ maxLength: 3000 }),
  }),
  { selector: ({ path }) => path, maxLength: 12 },
)

test('what is written is read again', () => {
  fc.assert(
    fc.property(files, (made) => {
      const entries = made.map(({ path, content }) => ({ path, content: Buffer.from(content) }))
      const bytes = gunzipSync(writeTarGz(entries, new Date(1e12)))
      expect(entriesOf(bytes)).toEqual(entries)
    }),
    { numRuns: 60 },
  )
})

test('paths of up to 255 characters go into the two fields of a header', () => {
  const path = `captures/${'a'.repeat(60)}/nodes/${'n'.repeat(60)}/iptables-save`
  const bytes = gunzipSync(writeTarGz([{ path, content: Buffer.from('x') }], new Date(0)))
  expect(entriesOf(bytes).map((entry) => entry.path)).toEqual([path])
})

test("other tools' archives are read: folders, ./ in front; whatever an extended header says is not used", () => {
  const bytes = tarOf([
    { path: './', type: '5' },
    { path: 'pax_global_header', type: 'g', content: '52 comment=made by hand\n' },
    { path: './submission.json', content: '{}' },
    { path: 'PaxHeaders/objects.json', type: 'x', content: '22 path=../../x\n99999 size=-1\n' },
    { path: 'captures/x', content: '[]' },
    { path: 'captures/old', type: '\0', content: 'v7' },
  ])
  expect(entriesOf(bytes).map(({ path, content }) => [path, String(content)])).toEqual([
    ['submission.json', '{}'],
    ['captures/x', '[]'],
    ['captures/old', 'v7'],
  ])
})

describe('one sentence for each', () => {
  test.each<[what: string, entries: RawEntry[], says: RegExp]>([
    ['a path that climbs', [{ path: '../../etc/passwd' }], /not part of a submission/],
    ['a path that climbs inside', [{ path: 'captures/../../x' }], /not part/],
    ['a folder that climbs', [{ path: '../x/', type: '5' }], /not part/],
    ['an absolute path', [{ path: '/etc/cron.d/x' }], /not part/],
    ['a backslash', [{ path: 'captures\\..\\x' }], /not part/],
    ['an escape sequence in a path', [{ path: 'captures/\u001b[2J' }], /\\x1b.*not part/],
    ['a symbolic link', [{ path: 'submission.json', type: '2' }], /symbolic link/],
    ['a hard link', [{ path: 'a', type: '1' }], /hard link/],
    ['a character device', [{ path: 'null', type: '3' }], /character device/],
    ['a block device', [{ path: 'sda', type: '4' }], /block device/],
    ['a named pipe', [{ path: 'pipe', type: '6' }], /named pipe/],
    ['a GNU long link', [{ path: '././@LongLink', type: 'L', content: 'x' }], /unknown type "L"/],
    ['a sparse file', [{ path: 'sparse', type: 'S' }], /unknown type "S"/],
    [
      'too many entries',
      Array.from({ length: 60 }, (_, index) => ({ path: `captures/f${index}` })),
      /more than 50 entries/,
    ],
    ['the same path twice', [{ path: 'signature' }, { path: './signature' }], /twice/],
    ['a file too large', [{ path: 'a', content: Buffer.alloc(10_001) }], /10001 bytes/],
    ['a size beyond the archive', [{ path: 'a', claims: 9000 }], /truncated/],
    ['a size of eight gigabytes', [{ path: 'a', claims: 0o77777777777 }], /8589934591 bytes/],
  ])('%s', (_what, entries, says) => {
    expect(refusalOf(entries)).toMatch(says)
  })

  test('a wrong checksum, a binary size, a missing end', () => {
    const damaged = tarOf([{ path: 'a' }])
    damaged[0] = 0x62
    expect(() => entriesOf(damaged)).toThrow(/checksum/)
    const binary = entryBytes({ path: 'a' })
    binary[124] = 0x80
    expect(() => entriesOf(binary)).toThrow(SubmissionRefusal)
    expect(() => entriesOf(entryBytes({ path: 'signature', content: 'x' }))).toThrow(/no end/)
    expect(() => entriesOf(Buffer.alloc(0))).toThrow(/no end/)
  })
})

test('any bytes at all are read or refused, never anything else', () => {
  const good = tarOf([
    { path: 'submission.json', content: '{"a":1}' },
    { path: 'captures/a/objects.json', content: '[]' },
  ])
  const edits = fc.array(fc.tuple(fc.nat(good.length - 1), fc.nat(255)), {
    minLength: 1,
    maxLength: 20,
  })
  const refused = { count: 0 }
  const survives = (bytes: Buffer) => {
    try {
      entriesOf(bytes)
    } catch (error) {
      expect(error).toBeInstanceOf(SubmissionRefusal)
      expect(String(error)).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/)
      refused.count++
    }
  }
  fc.assert(
    fc.property(edits, (changes) => {
      const bytes = Buffer.from(good)
      for (const [at, byte] of changes) bytes[at] = byte
      survives(bytes)
    }),
    { numRuns: 300 },
  )
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 3000 }), (bytes) => survives(Buffer.from(bytes))),
    { numRuns: 200 },
  )
  expect(refused.count).toBeGreaterThan(200)
})
