import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Artifact, ensureArtifact, proveArtifact } from '../../host/artifact.ts'

let folder: string
let made: number
let notes: string[]
const progress = { start() {}, end() {}, note: (line: string) => notes.push(line) }
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'artifact-'))
  made = 0
  notes = []
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const tree = (parts: string[] = []): Artifact => ({
  path: join(folder, 'cache', 'tree'),
  parts,
  async make(fresh) {
    made++
    mkdirSync(join(fresh, 'bin'), { recursive: true })
    writeFileSync(join(fresh, 'bin', 'kernel'), 'a kernel', { mode: 0o755 })
    writeFileSync(join(fresh, 'module'), 'a module')
    symlinkSync('kernel', join(fresh, 'bin', 'link'))
  },
})
const file = (): Artifact => ({
  path: join(folder, 'cache', 'kind'),
  async make(fresh) {
    made++
    writeFileSync(fresh, 'a program', { mode: 0o755 })
  },
})
const damageOf = async (artifact: Artifact, damage: (path: string) => void) => {
  const path = await ensureArtifact(artifact, progress)
  damage(path)
  expect(await ensureArtifact(artifact, progress)).toBe(path)
}
const folderAt = (path: string) => {
  rmSync(path)
  mkdirSync(path)
}
const fileAt = (path: string) => {
  rmSync(path, { recursive: true })
  writeFileSync(path, '')
}
const linkAt = (path: string) => {
  rmSync(path)
  symlinkSync('module', path)
}
const kernel = (path: string) => join(path, 'bin', 'kernel')

test('an intact artifact is made once; it is made again if a part is missing', async () => {
  await ensureArtifact(tree(['a', 'b']), progress)
  await ensureArtifact(tree(['b']), progress)
  expect(made).toBe(1)
  await ensureArtifact(tree(['b', 'c']), progress)
  expect(made).toBe(2)
  expect(notes).toEqual([])
  expect(readdirSync(join(folder, 'cache')).sort()).toEqual(['tree', 'tree.manifest'])
})

describe('a damaged artifact is reported and made again, once', () => {
  test.each<[string, (path: string) => void, RegExp]>([
    [
      'truncated',
      (path) => truncateSync(kernel(path), 3),
      /"bin\/kernel" has 3 bytes instead of 8/,
    ],
    ['empty', (path) => truncateSync(kernel(path), 0), /has 0 bytes instead of 8/],
    ['a byte flipped', (path) => writeFileSync(kernel(path), 'A kernel'), /has other contents/],
    [
      'a byte flipped, and its time set back',
      (path) => {
        writeFileSync(kernel(path), 'A kernel')
        utimesSync(kernel(path), 1, 1)
      },
      /has other contents/,
    ],
    ['missing', (path) => rmSync(join(path, 'module')), /"module" is missing/],
    ['not executable', (path) => chmodSync(kernel(path), 0o644), /"bin\/kernel" is not executable/],
    ['a folder in its place', (path) => folderAt(kernel(path)), /"bin\/kernel" is not a file/],
    ['a file in place of a folder', (path) => fileAt(dirname(kernel(path))), /./],
    ['another link', (path) => linkAt(join(path, 'bin', 'link')), /is another link/],
    ['a file in place of the whole', fileAt, /./],
    ['nothing but the manifest', (path) => rmSync(path, { recursive: true }), /^$/],
    ['a manifest cut off', (path) => truncateSync(`${path}.manifest`, 20), /^$/],
    ['a folder in place of the manifest', (path) => folderAt(`${path}.manifest`), /^$/],
  ])('a tree: %s', async (_fault, damage, told) => {
    await damageOf(tree(), damage)
    expect(made).toBe(2)
    expect(notes.join()).toMatch(told)
    expect(readFileSync(kernel(tree().path), 'utf8')).toBe('a kernel')
    expect(proveArtifact(tree().path)).toBeUndefined()
    await ensureArtifact(tree(), progress)
    expect(made).toBe(2)
  })

  test.each<[string, (path: string) => void]>([
    ['truncated', (path) => truncateSync(path, 3)],
    ['a byte flipped', (path) => writeFileSync(path, 'A program')],
    ['missing', (path) => rmSync(path)],
    ['not executable', (path) => chmodSync(path, 0o644)],
    ['a folder in its place', folderAt],
  ])('a file: %s', async (_fault, damage) => {
    await damageOf(file(), damage)
    expect(made).toBe(2)
    expect(readFileSync(file().path, 'utf8')).toBe('a program')
  })
})

test('a copy of the whole cache is not made again', async () => {
  const { path } = tree()
  await ensureArtifact(tree(), progress)
  const copy = join(folder, 'copy')
  cpSync(dirname(path), copy, { recursive: true, verbatimSymlinks: true })
  await ensureArtifact({ ...tree(), path: join(copy, 'tree') }, progress)
  expect(made).toBe(1)
})

test('contents that changed on the disk alone are found by reading every byte', async () => {
  const { path } = tree()
  await ensureArtifact(tree(), progress)
  const manifest = JSON.parse(readFileSync(`${path}.manifest`, 'utf8'))
  manifest.files['bin/kernel'].sha256 = '0'.repeat(64)
  writeFileSync(`${path}.manifest`, JSON.stringify(manifest))
  await ensureArtifact(tree(), progress)
  expect(made).toBe(1)
  expect(proveArtifact(path)).toBe('"bin/kernel" has other contents')
  await ensureArtifact(tree(), progress)
  expect(made).toBe(2)
})

test('an attempt that fails leaves nothing, and removes what a killed one left', async () => {
  const { path } = tree()
  const failing = async (fresh: string) => {
    mkdirSync(fresh)
    writeFileSync(join(fresh, 'half'), '')
    throw new Error('no network')
  }
  await expect(ensureArtifact({ path, make: failing }, progress)).rejects.toThrow('no network')
  expect(readdirSync(dirname(path))).toEqual([])
  mkdirSync(`${path}.new`)
  writeFileSync(join(`${path}.new`, 'half'), '')
  await ensureArtifact(tree(), progress)
  expect(existsSync(join(path, 'half'))).toBe(false)
})

test('of several processes that need it at once, one makes it', async () => {
  const paths = await Promise.all(Array.from({ length: 5 }, () => ensureArtifact(tree(), progress)))
  expect(new Set(paths).size).toBe(1)
  expect(made).toBe(1)
})
