import { execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { aptDownload } from '../../host/apt-download.ts'
import { waitFor } from '../../host/wait.ts'

let folder: string
let updates: string[]
let notes: string[]
const progress = {
  start() {},
  end() {},
  note: (line: string) => notes.push(line),
  update: (detail: string) => updates.push(detail),
}
/** The programs that replace apt's write their process numbers here. */
const pids = () => readFileSync(join(folder, 'pids'), 'utf8').trim().split('\n').map(Number)

const program = (name: string, text: string) => {
  const file = join(folder, 'bin', name)
  writeFileSync(file, `#!/bin/sh\necho $$ >>'${folder}/pids'\n${text}\n`)
  chmodSync(file, 0o755)
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'apt download '))
  updates = []
  notes = []
  vi.stubEnv('PATH', `${join(folder, 'bin')}:${process.env.PATH}`)
  // Two seconds instead of a minute.
  vi.stubEnv('LAB_TIMEOUT_SCALE', '0.04')
})
afterEach(() => {
  vi.unstubAllEnvs()
  rmSync(folder, { recursive: true, force: true })
})

const apt = (get: string) => {
  mkdirSync(join(folder, 'bin'))
  program('apt-cache', 'echo Package: kernel')
  program('apt-get', get)
}

const download = () =>
  aptDownload({ cache: folder, name: 'archives', packages: ['kernel'] }, progress)
const isLive = (pid: number) =>
  existsSync(`/proc/${pid}/status`) &&
  !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
const allEnded = () => waitFor('every child to end', 5000 / 0.04, async () => !pids().some(isLive))

/** A child of apt's, as its methods are, that would outlive it. */
const CHILD = `sh -c 'echo $$ >>"${'$'}{0}/pids"; exec sleep 600' "$FOLDER" &`

test('an apt that hangs is ended with its children, and the sentence names what to check', async () => {
  vi.stubEnv('FOLDER', folder)
  apt(`${CHILD}\ncase "$*" in *update*) exit 0;; esac; exec sleep 600`)
  await expect(download()).rejects.toThrow(
    /^The packages could not be fetched \(nothing was received for \d.* s: check the network and the proxy that apt uses\); run the same command again\.$/,
  )
  await allEnded()
})

test('a download that is too slow is ended like one that hangs', async () => {
  apt('while :; do printf x >>kernel.deb; sleep 0.1; done')
  await expect(download()).rejects.toThrow(/nothing was received for/)
  expect(notes.join()).toMatch(/package lists could not be refreshed/)
  await allEnded()
})

test('a download that makes progress may take longer, and shows its size', async () => {
  apt(
    'case "$*" in *update*) exit 0;; esac; for i in 1 2 3 4 5 6 7; do head -c 400000 /dev/zero >>kernel.deb; sleep 0.8; done',
  )
  const archives = await download()
  expect(existsSync(join(archives, 'kernel.deb'))).toBe(true)
  expect(updates).toContainEqual(expect.stringMatching(/^packages, [12]\.\d MB$/))
})

test.each(['update', 'download'])(
  'a full disk during %s is a sentence with the folder and the megabytes',
  async (stage) => {
    apt(
      `case "$*" in *${stage}*) echo 'E: Write error - write (28: No space left on device)' >&2; exit 100;; esac`,
    )
    await expect(download()).rejects.toThrow(
      new RegExp(
        `^No space is left for "${folder}": \\d+ MB are free and 400 MB are needed; delete something .* again\\.$`,
      ),
    )
  },
)

test('a failure is reported with the last error of apt', async () => {
  apt(
    `case "$*" in *update*) exit 0;; esac; echo 'E: Failed to fetch kernel.deb  404  Not Found' >&2; exit 100`,
  )
  await expect(download()).rejects.toThrow(
    'could not be fetched (Failed to fetch kernel.deb  404  Not Found); run',
  )
})

test('apt ends with the command that started it, though that was killed', async () => {
  apt('exec sleep 600')
  const module = join(import.meta.dirname, '../../host/apt-download.ts')
  const text = `import { aptDownload } from ${JSON.stringify(module)}
    await aptDownload({ cache: ${JSON.stringify(folder)}, name: 'archives', packages: ['kernel'] }, { start() {}, end() {}, note() {} })`
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', text], {
    env: { ...process.env, LAB_TIMEOUT_SCALE: '1' },
    stdio: 'inherit',
  })
  await expect.poll(() => existsSync(join(folder, 'pids')) && pids().some(isLive)).toBe(true)
  child.kill('SIGKILL')
  await once(child, 'exit')
  await allEnded()
})

/** apt's settings for a package source in a folder, of packages with what they depend on. */
function makeSource(packages: Record<string, string>) {
  const sources = join(folder, 'sources')
  mkdirSync(sources)
  const index = Object.entries(packages).map(([name, depends]) => {
    const control = `Package: ${name}\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.org>\n${depends && `Depends: ${depends}\n`}Description: x\n`
    mkdirSync(join(folder, name, 'DEBIAN'), { recursive: true })
    writeFileSync(join(folder, name, 'DEBIAN/control'), control)
    const archive = join(sources, `${name}.deb`)
    execFileSync('dpkg-deb', ['--build', join(folder, name), archive], { stdio: 'ignore' })
    const sum = createHash('sha256').update(readFileSync(archive)).digest('hex')
    return `${control}Filename: ./${name}.deb\nSize: ${statSync(archive).size}\nSHA256: ${sum}\n`
  })
  writeFileSync(join(sources, 'Packages'), index.join('\n'))
  writeFileSync(
    join(sources, 'made.list'),
    `deb [trusted=yes] copy:${sources.replaceAll(' ', '%20')} ./\n`,
  )
  return {
    'Dir::State::status': '/dev/null',
    'Dir::Etc::sourcelist': '/dev/null',
    'Dir::Etc::sourceparts': sources,
  }
}

test('dependencies are fetched too, whatever their name in this release', async () => {
  vi.stubEnv('LAB_TIMEOUT_SCALE', '1')
  const settings = makeSource({
    tool: 'libtool-t64',
    'libtool-t64': 'libbase',
    libbase: '',
    other: '',
  })
  const wanted = { cache: folder, name: 'made', packages: ['tool', 'unknown'], settings }
  const fetched = async (closure?: 'missing') =>
    readdirSync(await aptDownload({ ...wanted, ...(closure && { closure }) }, progress)).filter(
      (name) => name.endsWith('.deb'),
    )
  expect(await fetched()).toEqual(['tool_1_all.deb'])
  expect((await fetched('missing')).sort()).toEqual([
    'libbase_1_all.deb',
    'libtool-t64_1_all.deb',
    'tool_1_all.deb',
  ])
})
