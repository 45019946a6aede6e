// Starts a program of this checkout:  start.mjs scripts/lab.ts 2
//
// Reading hundreds of TypeScript sources takes more than a second each time. All programs are therefore bundled into the cache, and again when a source or an installed package has changed. If bundling fails, the program runs from its sources, because it may not need the broken part. Without a program it only checks whether programs can run on this machine.

import { createHash } from 'node:crypto'
import {
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { isMainThread, threadId } from 'node:worker_threads'

// import.meta.dirname does not exist in the old Node.js releases that are rejected below.
const root = fileURLToPath(new URL('..', import.meta.url))

/** Ends with a sentence and the exit code for trouble of the environment. */
function refuse(sentence) {
  console.error(` ✗ ${sentence}`)
  process.exit(2)
}

/** Whether a range of package.json, made of `^A.B` and `>=A.B`, has a release. */
function hasRelease(range, release) {
  const [major, minor] = release.split('.').map(Number)
  return range.split(' || ').some((part) => {
    const [, sign, leastMajor, leastMinor] = /^(\^|>=)(\d+)\.(\d+)$/.exec(part) ?? []
    return major === Number(leastMajor)
      ? minor >= Number(leastMinor)
      : sign === '>=' && major > Number(leastMajor)
  })
}

const { engines } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
if (!hasRelease(engines.node, process.versions.node))
  refuse(
    `This is Node.js ${process.versions.node}, and "${engines.node}" is needed: install Node.js 24, for example with \`nvm install 24\`, and run the command again.`,
  )

/** The minimum address space, in MB, for Node.js and the bundler. */
const addressSpace = 4096
const limits = existsSync('/proc/self/limits') ? readFileSync('/proc/self/limits', 'utf8') : ''
const allowed =
  Number(/^Max address space +(\d+)/m.exec(limits)?.[1] ?? Number.POSITIVE_INFINITY) / 2 ** 20
if (allowed < addressSpace)
  refuse(
    `Processes may have ${Math.floor(allowed)} MB of address space, and ${addressSpace} MB are needed: run \`ulimit -v unlimited\` and then the command again.`,
  )

/** Files below `folder` of the checkout, with their sizes and times of change: ctime moves with every write and can't be set back. */
function filesOf(folder, ending) {
  const entries = readdirSync(join(root, folder), { withFileTypes: true })
  const files = entries.flatMap((entry) => {
    const { name } = entry
    if (entry.isDirectory())
      return filesOf(join(folder, name), ending).map((file) => `${name}/${file}`)
    if (!name.endsWith(ending)) return []
    const { size, ctimeMs } = lstatSync(join(root, folder, name))
    return [`${name} ${size} ${ctimeMs}`]
  })
  return files.sort()
}

/** A digest of all sources and installed packages. */
function stateOfSources() {
  // Recordings are thousands of files, and no sources.
  const others = ['node_modules', 'test', 'data', 'docs', 'dist', 'captures', 'submissions']
  const folders = readdirSync(root, { withFileTypes: true }).filter(
    ({ name }) => !name.startsWith('.') && !others.includes(name),
  )
  const sources = folders.flatMap((entry) =>
    entry.isDirectory() ? [entry.name, ...filesOf(entry.name, '.ts')] : [],
  )
  const installed = statSync(join(root, 'node_modules/.package-lock.json'), {
    throwIfNoEntry: false,
  })?.mtimeMs
  const state = [
    process.version,
    root,
    readFileSync(fileURLToPath(import.meta.url)),
    installed,
    ...sources,
  ].join('\0')
  return createHash('sha256').update(state).digest('hex').slice(0, 16)
}

const cache = '.cache/programs'
const programsIn = (bundle) => filesOf(bundle, '.js').join('\n')
const listOf = (bundle) => join(root, bundle, 'files')

/** Whether every file of a bundle is unchanged. */
function isWhole(bundle) {
  try {
    return readFileSync(listOf(bundle), 'utf8') === programsIn(bundle)
  } catch {
    return false
  }
}

/** Long-running programs are one file each: removing an old bundle must not delete parts that they load later. */
const daemons = ['embedded/daemon.ts', 'cluster/kind/load-balancer/daemon.ts']
const outdatedMs = 3_600_000

async function makeBundle(bundle) {
  const { build } = await import('esbuild')
  const fresh = `${bundle}.${process.pid}.${threadId}`
  const present = (name) => existsSync(join(root, name))
  const scripts = readdirSync(join(root, 'scripts')).filter((name) => name.endsWith('.ts'))
  const programs = [
    ...scripts.map((name) => `scripts/${name}`),
    'instructors/class/judge-worker.ts',
  ].filter(present)
  const options = {
    bundle: true,
    platform: 'node',
    format: 'esm',
    minifyWhitespace: true,
    minifySyntax: true,
    // CommonJS packages load Node's built-in modules with `require`.
    banner: {
      js: `import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);`,
    },
    external: ['esbuild', 'tsx', 'vitest', '@lydell/node-pty', 'playwright-core'],
    // node-fetch takes its URL from Node.js, and this package with its 300 kB of tables only where that has none.
    alias: { 'whatwg-url': 'node:url' },
    logLevel: 'silent',
    absWorkingDir: root,
    outbase: root,
    outdir: join(root, fresh),
    chunkNames: 'shared/[hash]',
  }
  try {
    await build({ ...options, entryPoints: programs, splitting: true })
    await build({ ...options, entryPoints: daemons.filter(present) })
    writeFileSync(listOf(fresh), programsIn(fresh))
    try {
      renameSync(join(root, fresh), join(root, bundle))
    } catch {
      // Another process has created it meanwhile and uses it; or it is damaged.
      if (isWhole(bundle)) return
      rmSync(join(root, bundle), { recursive: true, force: true })
      renameSync(join(root, fresh), join(root, bundle))
    }
  } finally {
    rmSync(join(root, fresh), { recursive: true, force: true })
  }
  for (const name of readdirSync(join(root, cache))) {
    const path = join(root, cache, name)
    const { mtimeMs } = statSync(path, { throwIfNoEntry: false }) ?? {}
    if (Date.now() - mtimeMs > outdatedMs) rmSync(path, { recursive: true, force: true })
  }
}

// Whatever the umask is: no other user may change the programs that run next, or a submission.
// Threads have that of their process and cannot change it.
if (isMainThread) process.umask(process.umask() | 0o002)
// Learners cannot act on what Node.js deprecates in installed packages, such as their import of punycode, and would read it at every command.
process.noDeprecation = true
const [program, ...words] = process.argv.slice(2)
if (program === undefined) process.exit()
const source = resolve(root, program)
const bundle = `${cache}/${stateOfSources()}`
// A bundling error, such as a syntax error or a full disk, is reported by the program itself when it is affected.
const isReady =
  isWhole(bundle) ||
  (await makeBundle(bundle)
    .catch(() => {})
    .then(() => isWhole(bundle)))
const bundled = join(root, bundle, program.replace(/\.ts$/, '.js'))
process.argv = [process.execPath, source, ...words]
if (isReady && existsSync(bundled)) await import(pathToFileURL(bundled).href)
else {
  const { register } = await import('tsx/esm/api')
  register()
  await import(pathToFileURL(source).href)
}
