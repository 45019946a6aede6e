// Plays labs from the offline archive on a machine that has nothing: a root with one static busybox, no network, an ordinary user.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, existsSync, linkSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { arch, tmpdir } from 'node:os'
import { join } from 'node:path'
import { unpackPackages } from '../embedded/index.ts'
import { cacheFolder, projectRoot } from '../host/layout.ts'
import { main, UserError } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'
import { shellWord } from '../host/shell-word.ts'
import { timeoutScale } from '../host/wait.ts'

const devices = ['null', 'zero', 'full', 'random', 'urandom', 'tty']
const USER = 1000

/** What is mounted in every Linux system. */
const mounts = [
  ...['-t proc proc proc', '-t sysfs sysfs sys'],
  ...devices.map((device) => `--bind /dev/${device} dev/${device}`),
]

/** Run by busybox's shell in the empty root: an ordinary user begins, who is the one that unpacks the archive. */
const session = (labs: readonly string[]) => `busybox umount -l /old && busybox rmdir /old
cd /home && busybox tar -xzf /archive.tar.gz && cd kube-service-labs || exit 2
exec .offline/bin/unshare --user --map-user=${USER} --map-group=${USER} /bin/sh -c '
busybox id
for lab in ${labs.join(' ')}; do
  ./lab $lab || exit
  ./lab -s down
done'
`

await main(async () => {
  // One for each kernel: lab 7 is the one with steps that only this machine's own can do.
  const labs = (process.env.LAB || '2 7').trim().split(/[\s,]+/)
  const wrong = labs.find((lab) => !/^\d+$/.test(lab))
  if (wrong !== undefined) throw new UserError(`"${wrong}" is not the number of a lab: make test-bundle LAB='2 7'.`)
  const kernel = shellWord(process.env.KERNEL ?? '')
  const archive = join(projectRoot, `dist/kube-service-labs-linux-${arch()}.tar.gz`)
  if (!existsSync(archive)) throw new UserError(`"${archive}" does not exist: run \`make bundle\` first.`)
  const tree = await unpackPackages(
    { cache: cacheFolder, name: 'busybox', packages: ['busybox-static'] },
    createProgress(),
  )
  const root = mkdtempSync(join(tmpdir(), 'empty-root-'))
  try {
    for (const folder of ['bin', 'proc', 'sys', 'dev', 'tmp', 'home', 'old']) mkdirSync(join(root, folder))
    copyFileSync(join(tree, 'usr/bin/busybox'), join(root, 'bin/busybox'))
    linkSync(join(root, 'bin/busybox'), join(root, 'bin/sh'))
    copyFileSync(archive, join(root, 'archive.tar.gz'))
    for (const name of devices) writeFileSync(join(root, 'dev', name), '')
    // Not only chroot: who is in one gets no user namespace (unshare(2)).
    const script = `set -e
ip link set lo up
mount --bind . .
cd "$PWD"
${mounts.map((mount) => `mount ${mount}`).join('\n')}
pivot_root . old
exec /bin/busybox env -i PATH=/usr/bin:/bin LAB_TIMEOUT_SCALE=${timeoutScale()} KERNEL=${kernel} /bin/sh -c ${shellWord(session(labs))}`
    const namespaces = ['--user', '--map-root-user', '--mount', '--net', '--pid', '--ipc', '--fork', '--kill-child']
    const child = spawn('unshare', [...namespaces, 'sh', '-c', script], {
      cwd: root,
      env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin` },
      stdio: ['ignore', 'inherit', 'inherit'],
    })
    const [code]: (number | null)[] = await once(child, 'exit')
    return code ?? 2
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
})
