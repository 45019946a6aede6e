// Starts a script of this folder:  start.mjs scripts/lab.ts 2
//
// Reading hundreds of TypeScript sources takes two seconds, each time. All scripts are therefore bundled into the cache once, and again
// when a source or what is installed has changed. Where that fails, the script runs from its sources: it may not need what is broken.
// Without a script it only finds out whether scripts can run on this machine.

import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, lstatSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

// import.meta.dirname is younger than the Node.js releases that are told below that they are too old.
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
    return major === Number(leastMajor) ? minor >= Number(leastMinor) : sign === '>=' && major > Number(leastMajor)
  })
}

const { engines } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
if (!hasRelease(engines.node, process.versions.node))
  refuse(
    `This is Node.js ${process.versions.node}, and "${engines.node}" is needed: install Node.js 24, for example with \`nvm install 24\`, and run the command again.`,
  )

const strangers = ['node_modules', 'test', 'dist', 'captures', 'submissions']
const folders = readdirSync(root, { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && !/^\./.test(entry.name) && !strangers.includes(entry.name))
  .map(({ name }) => name)
  .sort()

/** Names the state of all sources by their sizes and times of change. */
function stateOfSources() {
  const sources = folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => /\.(ts|mjs)$/.test(file))
      .map((file) => join(folder, file)),
  )
  const hash = createHash('sha256').update(`${root}\0${process.version}\0`)
  for (const file of [...sources.sort(), 'node_modules/.package-lock.json']) {
    const { size, mtimeMs } = statSync(join(root, file), { throwIfNoEntry: false }) ?? { size: 0, mtimeMs: 0 }
    hash.update(`${file}\0${size}\0${mtimeMs}\0`)
  }
  return hash.digest('hex').slice(0, 16)
}

/** Whether every file of a bundle is as it was made, by its size and time of change (host/artifact.ts). */
function isWhole(bundle) {
  try {
    const { files } = JSON.parse(readFileSync(`${bundle}.manifest`, 'utf8'))
    return Object.entries(files).every(([name, { size, ctimeMs }]) => {
      const stats = lstatSync(join(bundle, name))
      return stats.isFile() && stats.size === size && stats.ctimeMs === ctimeMs
    })
  } catch {
    return false
  }
}

/** The least address space, in MB, that Node.js and the bundler start in. */
const addressSpace = 4096
const limits = existsSync('/proc/self/limits') ? readFileSync('/proc/self/limits', 'utf8') : ''
const allowed = Number(/^Max address space +(\d+)/m.exec(limits)?.[1] ?? Number.POSITIVE_INFINITY) / 2 ** 20
if (allowed < addressSpace)
  refuse(
    `Processes may have ${Math.floor(allowed)} MB of address space, and ${addressSpace} MB are needed: run \`ulimit -v unlimited\` and then the command again.`,
  )

const [script, ...words] = process.argv.slice(2)
if (script === undefined) process.exit()
const source = join(root, script)
const bundle = join(root, '.cache/programs', stateOfSources())
const program = join(bundle, basename(script).replace(/\.ts$/, '.mjs'))
if (!isWhole(bundle))
  spawnSync(process.execPath, ['--import', 'tsx', 'scripts/bundle-scripts.ts', bundle], { cwd: root, stdio: 'ignore' })
process.argv = [process.execPath, source, ...words]
if (isWhole(bundle) && existsSync(program)) await import(pathToFileURL(program).href)
else {
  const { register } = await import('tsx/esm/api')
  register()
  await import(pathToFileURL(source).href)
}
