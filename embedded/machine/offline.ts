import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { ensureArtifact } from '../../host/artifact.ts'
import type { Progress } from '../../host/progress.ts'
import { runTool } from '../../host/supervised.ts'
import { ownFiles } from './confinement.ts'
import {
  bringLibc,
  FIRST_PROGRAM,
  LIBRARIES,
  processor,
  runFrom,
  umlTrouble,
} from './kernel-package.ts'
import { programs, requireSupport, unpackKernel } from './packages.ts'
import { firstProgram } from './uml-kernel.ts'

/**
 * Packages that labs use besides the programs of nodes and Pods. Dependencies and base packages are
 * included.
 */
const further = ['mount', 'make', 'less', 'libstdc++6', 'kubernetes-client']

/** Tells ./lab and make which processor the programs are for, as `uname -m` names it. */
const PROCESSOR = 'processor'

/** Links that the packages' own scripts make when they are installed. */
const links = {
  'usr/bin/awk': 'mawk',
  'usr/bin/which': 'which.debianutils',
  'usr/bin/pager': 'less',
}

/**
 * Starts the program of the root file system that has the name of this file, without the libraries
 * of the machine.
 */
const starter = `#!/bin/sh
here=\${0%/*} name=\${0##*/}
root=$here/../root folder=bin
[ -e "$root/usr/bin/$name" ] || folder=sbin
if [ "$name" = node ]; then
  [ -d "\${TMPDIR:-/tmp}" ] || { mkdir -p "$here/../tmp" && export TMPDIR="$here/../tmp"; }
  set -- --require "$here/../exec-path.cjs" "$@"
fi
exec ${runFrom('$root', 'usr/$folder/$name')
  .map((word) => `"${word}"`)
  .join(' ')} "$@"
`

/** Node.js would use the loader (ld.so(8)) as its own program when it starts processes. */
const execPath = `process.execPath = require('node:path').join(__dirname, 'bin/node')\n`

/**
 * Creates an offline archive's folder: packages of this release with all that they depend on, the
 * kernel, and this Node.js.
 */
export async function makeOffline(
  offline: string,
  cache: string,
  progress: Progress,
): Promise<void> {
  await requireSupport()
  const packages = [...Object.values(programs), ...further]
  const tree = await unpackKernel({ cache, name: 'offline', packages, closure: 'all' }, progress)
  const make = async (fresh: string) => {
    await runTool(['cp', '-a', tree, fresh], cache)
    await complete(fresh)
  }
  await ensureArtifact({ path: join(offline, 'root'), make }, progress)
  makeStarters(offline)
  // The Node.js of a distribution may need more files than its program and libraries.
  await runTool(['env', '-i', `PATH=${offline}/bin`, `${offline}/bin/node`, '--version'], offline)
}

/**
 * Creates a starter for each program of the root, so that it runs on the host, except Perl and
 * scripts, which would use its files.
 */
export function makeStarters(offline: string): void {
  const bin = join(offline, 'bin')
  mkdirSync(bin)
  writeFileSync(join(offline, 'start'), starter, { mode: 0o755 })
  writeFileSync(join(offline, 'exec-path.cjs'), execPath)
  writeFileSync(join(offline, PROCESSOR), `${processor?.name}\n`)
  for (const folder of ['usr/bin', 'usr/sbin'])
    for (const name of readdirSync(join(offline, 'root', folder))) {
      const head = headOf(join(offline, 'root', folder, name))
      if (name.startsWith('perl') || !head.startsWith('\x7fELF') || existsSync(join(bin, name)))
        continue
      symlinkSync(
        head.includes('ld-linux') ? '../start' : `../root/${folder}/${name}`,
        join(bin, name),
      )
    }
}

function headOf(path: string): string {
  if (!statSync(path, { throwIfNoEntry: false })?.isFile()) return ''
  const file = openSync(path, 'r')
  try {
    const head = Buffer.alloc(4096)
    return head.toString('latin1', 0, readSync(file, head))
  } finally {
    closeSync(file)
  }
}

async function complete(root: string): Promise<void> {
  for (const name of ['doc', 'man', 'locale', 'info', 'lintian', 'bash-completion', 'nginx/html'])
    rmSync(join(root, 'usr/share', name), { recursive: true, force: true })
  for (const folder of ['bin', 'sbin', 'lib', 'lib64'])
    if (!existsSync(join(root, folder))) symlinkSync(`usr/${folder}`, join(root, folder))
  for (const [link, target] of Object.entries(links)) {
    rmSync(join(root, link), { force: true })
    symlinkSync(target, join(root, link))
  }
  for (const folder of [
    'dev',
    'proc',
    'sys',
    'run',
    'mnt',
    'tmp',
    'root',
    'opt',
    'var/log',
    'var/lib/nginx',
  ])
    mkdirSync(join(root, folder), { recursive: true })
  for (const file of ['passwd', 'group'])
    copyFileSync(join(root, `usr/share/base-passwd/${file}.master`), join(root, 'etc', file))
  writeFileSync(join(root, 'etc/hosts'), '127.0.0.1 localhost\n')
  writeFileSync(join(root, FIRST_PROGRAM), firstProgram, { mode: 0o755 })
  if (!umlTrouble()) bringLibc(root, root)
  // A Node.js of a distribution has libraries that no package above brings.
  for (const file of ownFiles()) {
    const place = join(
      root,
      file === realpathSync(process.execPath) ? 'usr/bin/node' : join(LIBRARIES, basename(file)),
    )
    if (existsSync(place) || !isProgramFile(file)) continue
    copyFileSync(file, place)
    chmodSync(place, 0o755)
  }
  // Programs refer to libraries by other names than those of their files: ldconfig creates the
  // links.
  await runTool([join(root, 'usr/sbin/ldconfig'), '-n', join(root, LIBRARIES)], root)
  // Every file belongs to the user who unpacks the archive.
  await runTool(['chmod', '-R', 'u+rwX,go+rX,ug-s', '.'], root)
}

const isProgramFile = (file: string) =>
  file === realpathSync(process.execPath) || /\.so(\.\d+)*$/.test(file)
