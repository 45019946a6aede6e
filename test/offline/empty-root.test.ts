// Labs from the offline archive where there is nothing: a root with one static busybox, no network,
// an ordinary user. `make test-bundle` runs it, `make test` does not. LAB='2 7' chooses the labs.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, linkSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ARCHIVE, NAME } from '../../course/offline-archive.ts'
import { unpackPackages } from '../../embedded/index.ts'
import { cacheFolder } from '../../host/layout.ts'
import { createProgress } from '../../host/progress.ts'
import { shellWord } from '../../host/shell-word.ts'
import { timeoutScale } from '../../host/wait.ts'

// One for each kernel: lab 7 is the one with steps that only this machine's own can do.
const labs = (process.env.LAB || '2 7').trim().split(/[\s,]+/)
const kernel = shellWord(process.env.KERNEL ?? '')
const devices = ['null', 'zero', 'full', 'random', 'urandom', 'tty']
const USER = 1000

const mounts = [
  '-t proc proc proc',
  '-t sysfs sysfs sys',
  ...devices.map((device) => `--bind /dev/${device} dev/${device}`),
]

/**
 * Run by busybox's shell in the empty root: an ordinary user begins, who is the one that unpacks
 * the archive.
 */
const session = `busybox umount -l /old && busybox rmdir /old
cd /home && busybox tar -xzf /archive.tar.gz && cd ${NAME} || exit 2
exec .offline/bin/unshare --user --map-user=${USER} --map-group=${USER} /bin/sh -c '
busybox id
for lab in ${labs.map(Number).join(' ')}; do
  ./lab $lab || exit
  ./lab -s down
done'
`

/** Not only chroot: who is in one gets no user namespace (unshare(2)). */
const enterRoot = `set -e
ip link set lo up
mount --bind . .
cd "$PWD"
${mounts.map((mount) => `mount ${mount}`).join('\n')}
pivot_root . old
exec /bin/busybox env -i PATH=/usr/bin:/bin LAB_TIMEOUT_SCALE=${timeoutScale()} KERNEL=${kernel} /bin/sh -c ${shellWord(session)}`

test(`labs ${labs.join(' and ')} run in an empty root`, {
  timeout: 1_200_000 * timeoutScale(),
}, async () => {
  const busybox = { cache: cacheFolder, name: 'busybox', packages: ['busybox-static'] }
  const tree = await unpackPackages(busybox, createProgress())
  const root = mkdtempSync(join(tmpdir(), 'empty-root-'))
  try {
    for (const folder of ['bin', 'proc', 'sys', 'dev', 'tmp', 'home', 'old'])
      mkdirSync(join(root, folder))
    copyFileSync(join(tree, 'usr/bin/busybox'), join(root, 'bin/busybox'))
    linkSync(join(root, 'bin/busybox'), join(root, 'bin/sh'))
    copyFileSync(ARCHIVE, join(root, 'archive.tar.gz'))
    for (const name of devices) writeFileSync(join(root, 'dev', name), '')
    const namespaces = [
      '--user',
      '--map-root-user',
      '--mount',
      '--net',
      '--pid',
      '--ipc',
      '--fork',
      '--kill-child',
    ]
    const child = spawn('unshare', [...namespaces, 'sh', '-c', enterRoot], {
      cwd: root,
      env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin` },
      stdio: ['ignore', 'inherit', 'inherit'],
    })
    expect(await once(child, 'exit')).toEqual([0, null])
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
})
