import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Cluster } from '../../cluster/driver.ts'
import { fetchForNode, installNodeTools, withOwnKeys } from '../../cluster/node-tools.ts'
import { processStartTime } from '../../host/live-process.ts'
import { Refusal } from '../../host/main.ts'
import { madeCluster } from './made-cluster.ts'

let folder: string
const at = (...path: string[]) => join(folder, ...path)
const architecture = execFileSync('dpkg', ['--print-architecture'], { encoding: 'utf8' }).trim()

/** A package of that name that holds one empty program. */
function makePackage(name: string, depends?: string): string {
  const tree = at('build', name)
  mkdirSync(join(tree, 'DEBIAN'), { recursive: true })
  const fields = [
    `Package: ${name}`,
    'Version: 1.0',
    `Architecture: ${architecture}`,
    'Maintainer: nobody <n@example.org>',
  ]
  const control = [
    ...fields,
    ...(depends ? [`Depends: ${depends}`] : []),
    'Description: a test',
    '',
  ]
  writeFileSync(join(tree, 'DEBIAN', 'control'), control.join('\n'))
  execFileSync('dpkg-deb', [
    '--root-owner-group',
    '--build',
    tree,
    at('repository', `${name}_1.0.deb`),
  ])
  const content = readFileSync(at('repository', `${name}_1.0.deb`))
  const sum = createHash('sha256').update(content).digest('hex')
  return [
    ...control.slice(0, -1),
    `Filename: ./${name}_1.0.deb`,
    `Size: ${content.length}`,
    `SHA256: ${sum}`,
    '',
  ].join('\n')
}

/**
 * A pretended node: commands run here, with its own programs before the system's, and files below a
 * folder.
 */
function nodeCluster(): Cluster {
  const exec: Cluster['exec'] = async (_node, [program = '', ...args], { stdin } = {}) => {
    const inNode = args.map((word) =>
      word
        .replaceAll('/run/kube-', `${folder}/node/run/kube-`)
        .replace('cd / ', `cd ${folder}/node `),
    )
    const env = { ...process.env, PATH: `${at('bin')}:/usr/bin:/bin` }
    const onlyItsOwn = inNode.map((word) =>
      word.includes('command -v')
        ? word.replace(/^case :\$PATH: .*$/m, `PATH=${at('tools')}`)
        : word,
    )
    const result = spawnSync(program, onlyItsOwn, {
      env,
      encoding: 'utf8',
      ...(stdin === undefined ? {} : { input: stdin }),
    })
    return { exitCode: result.status ?? 1, stdout: result.stdout, stderr: result.stderr }
  }
  return madeCluster({ driver: 'kind', exec })
}

const program = (folderName: string, name: string, body: string) => {
  mkdirSync(at(folderName), { recursive: true })
  writeFileSync(at(folderName, name), `#!/bin/sh\n${body}\n`)
  chmodSync(at(folderName, name), 0o755)
}
const install = () => {
  const cluster = nodeCluster()
  return installNodeTools(cluster, 'n', (node, names) =>
    fetchForNode(cluster, node, names, at('cache')),
  )
}
const offline = "echo 'E: Unable to locate package ipset' >&2; exit 100"
const bringsTools = () =>
  `cp ${at('template')} ${at('tools', 'ipset')}; cp ${at('template')} ${at('tools', 'ipvsadm')}`

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'node-tools-'))
  for (const each of ['repository', 'bin', 'tools', 'node/etc/apt', 'node/var/lib/dpkg'])
    mkdirSync(at(each), { recursive: true })
  const packages = [makePackage('libfake'), makePackage('ipset', 'libfake'), makePackage('ipvsadm')]
  writeFileSync(at('repository', 'Packages'), packages.join('\n'))
  writeFileSync(at('node/etc/apt/sources.list'), `deb [trusted=yes] copy:${at('repository')} ./\n`)
  writeFileSync(at('node/var/lib/dpkg/status'), '')
  program('.', 'template', 'exit 0')
  program(
    'bin',
    'dpkg',
    `case $1 in --print-architecture) echo ${architecture} ;; *) echo "$@" >${at('installed')}; ${bringsTools()} ;; esac`,
  )
})
afterEach(() => rmSync(folder, { recursive: true }))

test('a node that has the tools is not changed', async () => {
  program('tools', 'ipset', '')
  program('tools', 'ipvsadm', '')
  program('bin', 'apt-get', `touch ${at('apt-was-run')}`)
  const report = await install()
  expect(report).toEqual({
    installed: [],
    from: undefined,
    paths: [at('tools/ipset'), at('tools/ipvsadm')],
  })
  expect(existsSync(at('apt-was-run'))).toBe(false)
})

test('a node with a network gets the missing tools from its own apt, and nothing else', async () => {
  program('tools', 'ipset', '')
  program(
    'bin',
    'apt-get',
    `case $* in *install*) echo "$@" >${at('asked')}; ${bringsTools()} ;; esac`,
  )
  const report = await install()
  expect(report).toMatchObject({ installed: ['ipvsadm'], from: "the node's apt" })
  expect(readFileSync(at('asked'), 'utf8')).toMatch(/ ipvsadm\n$/)
  expect(readFileSync(at('asked'), 'utf8')).not.toMatch(/ ipset/)
})

test('an installation has the time that LAB_TIMEOUT_SCALE gives it', async () => {
  vi.stubEnv('LAB_TIMEOUT_SCALE', '2')
  const deadlines: unknown[] = []
  const exec: Cluster['exec'] = async (_node, _command, options) => {
    deadlines.push(options?.timeoutMs)
    return { exitCode: 0, stdout: '', stderr: '' }
  }
  await installNodeTools(madeCluster({ driver: 'kind', exec }), 'n', async () => [])
  vi.unstubAllEnvs()
  expect(deadlines).toEqual([60_000, 600_000, 60_000])
})

test("a node without a network gets packages and dependencies from this machine's apt, fetched once", async () => {
  const cluster = nodeCluster()
  const archives = await fetchForNode(cluster, 'n', ['ipset', 'ipvsadm'], at('cache'))
  expect(archives.map((path) => basename(path).replace(/_.*/, '')).sort()).toEqual([
    'ipset',
    'ipvsadm',
    'libfake',
  ])
  rmSync(at('repository'), { recursive: true })
  expect(await fetchForNode(cluster, 'n', ['ipset', 'ipvsadm'], at('cache'))).toEqual(archives)
  await expect(fetchForNode(cluster, 'n', ['ipvsadm'], at('cache'))).rejects.toThrow(
    /^apt on this machine can't fetch them either/,
  )
})

test('a damaged package of the cache is fetched again', async () => {
  const fetch = () => fetchForNode(nodeCluster(), 'n', ['ipset'], at('cache'))
  const [archive = ''] = await fetch()
  const whole = readFileSync(archive)
  writeFileSync(archive, whole.subarray(0, 100))
  expect(await fetch()).toContain(archive)
  expect(readFileSync(archive)).toEqual(whole)
})

test("this machine's apt is ended with its children when it makes no progress", async () => {
  program('host', 'apt-get', `echo $$ >${at('apt-pid')}; sleep 77`)
  vi.stubEnv('PATH', `${at('host')}:${process.env.PATH}`)
  vi.stubEnv('LAB_TIMEOUT_SCALE', '0.02')
  try {
    await expect(fetchForNode(nodeCluster(), 'n', ['ipset'], at('cache'))).rejects.toThrow(
      /^apt on this machine can't fetch them either \(The package lists could not be fetched \(nothing was received for .* s: check/,
    )
  } finally {
    vi.unstubAllEnvs()
  }
  expect(processStartTime(Number(readFileSync(at('apt-pid'), 'utf8')))).toBeUndefined()
})

test('a tool that its package sources lack is not reported as installed', async () => {
  writeFileSync(at('repository', 'Packages'), makePackage('ipset'))
  await expect(fetchForNode(nodeCluster(), 'n', ['ipset', 'ipvsadm'], at('cache'))).rejects.toThrow(
    "the node's package sources have no ipvsadm",
  )
})

test('packages that the node has are not fetched', async () => {
  const installed = [
    'Package: libfake',
    'Status: install ok installed',
    'Version: 1.0',
    `Architecture: ${architecture}`,
  ]
  writeFileSync(
    at('node/var/lib/dpkg/status'),
    `${installed.join('\n')}\nMaintainer: n\nDescription: a test\n`,
  )
  const archives = await fetchForNode(nodeCluster(), 'n', ['ipset'], at('cache'))
  expect(archives.map((path) => basename(path))).toEqual([expect.stringMatching(/^ipset_/)])
})

test('where both fail, one sentence names both and the image as the alternative', async () => {
  program('bin', 'apt-get', offline)
  program('bin', 'dpkg', 'exit 127')
  const failed = install()
  await expect(failed).rejects.toThrow(Refusal)
  await expect(failed).rejects.toThrow(
    /^ipset and ipvsadm can't be installed on n: Unable to locate package ipset; n has no dpkg.*make node-image/,
  )
})

test('keys are read below the copied root, wherever the sources name them', () => {
  const deb822 = 'Types: deb\nSigned-By: /usr/share/keyrings/archive.gpg\n'
  expect(withOwnKeys(deb822, '/copy')).toContain('Signed-By: /copy/usr/share/keyrings/archive.gpg')
  expect(
    withOwnKeys('deb [arch=amd64 signed-by=/etc/apt/keyrings/k.asc] http://x y z', '/copy'),
  ).toContain('signed-by=/copy/etc/apt/keyrings/k.asc]')
  expect(withOwnKeys('deb http://x/usr/share/ y z', '/copy')).toBe('deb http://x/usr/share/ y z')
})

test('packages are copied in and installed by dpkg, which leaves no file behind', async () => {
  program(
    'bin',
    'apt-get',
    `case "$*" in *Dir::State*) exec /usr/bin/apt-get "$@" ;; *) ${offline} ;; esac`,
  )
  const report = await install()
  expect(report).toMatchObject({ installed: ['ipset', 'ipvsadm'], from: "this machine's apt" })
  const names = readFileSync(at('installed'), 'utf8').match(/[^/ ]+\.deb/g)
  expect(names).toHaveLength(3)
  expect(readdirSync(at('node/run'))).toEqual([])
})
