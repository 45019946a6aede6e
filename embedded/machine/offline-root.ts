import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { ensureArtifact } from '../../host/artifact.ts'
import type { Progress } from '../../host/progress.ts'
import { runTool } from '../../host/supervised.ts'
import { ensureConfine, ownFiles } from './confinement.ts'
import { bringLibc, KERNEL, kernelAddition, LIBRARIES } from './kernel-package.ts'
import { unpackPackages } from './package-tree.ts'
import { programPackages, requireSupport } from './packages.ts'
import { FIRST_PROGRAM, firstProgram } from './uml-kernel.ts'
import { COMPILER, ensureXstateShim } from './xstate-shim.ts'

/** What labs use beside the programs of nodes and Pods. What these depend on, and what every Debian has, comes with them. */
const further = ['make', 'procps', 'kmod', 'less', 'libstdc++6', 'kubernetes-client', COMPILER]

/** Links that the packages' own scripts make when they are installed. */
const links = { 'usr/bin/awk': 'mawk', 'usr/bin/which': 'which.debianutils', 'usr/bin/pager': 'less' }

/**
 * Makes a root file system that needs nothing of the machine it is on: packages of this system's release with all that they depend on, the
 * kernel, and the Node.js that runs this. The guest of an offline archive runs on it, and commands on the host are taken from it.
 * @param root where it is put, whole
 * @throws Unsupported where packages can't be had, Error where one can't be fetched
 */
export async function makeOfflineRoot(root: string, cache: string, progress: Progress): Promise<void> {
  await requireSupport()
  const more = kernelAddition(cache)
  const packages = [...(more ? [] : [KERNEL]), ...programPackages, ...further]
  const tree = await unpackPackages({ cache, name: 'offline', packages, closure: true, more }, progress)
  await Promise.all([ensureXstateShim(tree), ensureConfine(tree)])
  const make = async (fresh: string) => {
    await runTool(['cp', '-a', tree, fresh], cache)
    await complete(fresh)
  }
  await ensureArtifact({ path: root, make }, progress)
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
  for (const folder of ['dev', 'proc', 'sys', 'run', 'mnt', 'tmp', 'root', 'opt', 'var/log', 'var/lib/nginx'])
    mkdirSync(join(root, folder), { recursive: true })
  for (const file of ['passwd', 'group'])
    copyFileSync(join(root, `usr/share/base-passwd/${file}.master`), join(root, 'etc', file))
  writeFileSync(join(root, 'etc/hosts'), '127.0.0.1 localhost\n')
  writeFileSync(join(root, FIRST_PROGRAM), firstProgram, { mode: 0o755 })
  bringLibc(root, root)
  // A Node.js of a distribution has libraries that no package above brings.
  for (const file of ownFiles()) {
    const place = join(root, file === realpathSync(process.execPath) ? 'usr/bin/node' : join(LIBRARIES, basename(file)))
    if (existsSync(place) || !isProgramFile(file)) continue
    copyFileSync(file, place)
    chmodSync(place, 0o755)
  }
  // Whoever unpacks it owns it, and is no one else.
  await runTool(['chmod', '-R', 'u+rwX,go+rX,ug-s', '.'], root)
}

const isProgramFile = (file: string) => file === realpathSync(process.execPath) || /\.so(\.\d+)*$/.test(file)
