// Plays a lab from the offline archive on a machine that has nothing: a root with one static busybox, no network, an ordinary user.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, existsSync, linkSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { unpackPackages } from '../embedded/index.ts'
import { cacheFolder, projectRoot } from '../host/layout.ts'
import { main, UserError } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'
import { shellWord } from '../host/shell-word.ts'
import { timeoutScale } from '../host/wait.ts'

const devices = ['null', 'zero', 'full', 'random', 'urandom', 'tty']
const USER = 1000

/** Run by busybox's shell as an ordinary user in the empty root. */
const session = (lab: string) => `cd /home && busybox tar -xzf /archive.tar.gz && cd kube-service-labs || exit 2
busybox id
./lab ${lab}
code=$?
./lab -s down
exit $code
`

await main(async () => {
  const lab = process.env.LAB || '2'
  if (!/^\d+$/.test(lab)) throw new UserError(`"${lab}" is no number of a lab: LAB=2 make test-bundle.`)
  const archive = join(projectRoot, 'dist/kube-service-labs-linux-x64.tar.gz')
  if (!existsSync(archive)) throw new UserError(`"${archive}" is not there: run \`make bundle\` first.`)
  const tree = await unpackPackages(
    { cache: cacheFolder, name: 'busybox', packages: ['busybox-static'] },
    createProgress(),
  )
  const root = mkdtempSync(join(tmpdir(), 'empty-root-'))
  try {
    for (const folder of ['bin', 'proc', 'dev', 'tmp', 'home']) mkdirSync(join(root, folder))
    copyFileSync(join(tree, 'usr/bin/busybox'), join(root, 'bin/busybox'))
    linkSync(join(root, 'bin/busybox'), join(root, 'bin/sh'))
    copyFileSync(archive, join(root, 'archive.tar.gz'))
    for (const name of devices) writeFileSync(join(root, 'dev', name), '')
    const place = shellWord(root)
    const script = `set -e
ip link set lo up
mount -t proc proc ${place}/proc
for device in ${devices.join(' ')}; do mount --bind /dev/$device ${place}/dev/$device; done
cd ${place}
exec env -i PATH=/usr/bin:/bin LAB_TIMEOUT_SCALE=${timeoutScale()} unshare --user --map-user=${USER} --map-group=${USER} --root=. /bin/sh -c ${shellWord(session(lab))}`
    const namespaces = ['--user', '--map-root-user', '--mount', '--net', '--pid', '--ipc', '--fork', '--kill-child']
    const child = spawn('unshare', [...namespaces, 'sh', '-c', script], { stdio: ['ignore', 'inherit', 'inherit'] })
    const [code]: (number | null)[] = await once(child, 'exit')
    return code ?? 2
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
})
