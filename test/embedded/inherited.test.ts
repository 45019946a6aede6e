// What a cluster takes over from the shell that starts it: nothing that lets a node reach the
// user's files, keys or other programs.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { EmbeddedCluster } from '../../cluster/embedded.ts'
import { hostKernelTrouble, KERNELS } from '../../embedded/index.ts'
import { projectRoot } from '../../host/layout.ts'
import { silent } from '../../host/progress.ts'
import { timeoutScale } from '../../host/wait.ts'

/** The processes of this machine with a descriptor of something in the folder. */
const holders = (folder: string) =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        const descriptors = readdirSync(`/proc/${pid}/fd`)
        return descriptors.some((name) =>
          readlinkSync(`/proc/${pid}/fd/${name}`).startsWith(folder),
        )
      } catch {
        // It has ended, or is another user's.
        return false
      }
    })

/**
 * A session keyring with a key, whose arrival in a guest would be a leak (keyctl(2), x86-64):
 * KEYCTL_JOIN_SESSION_KEYRING, add_key.
 */
const WITH_KEY = `syscall(250, 1, 0); my @key = ("user", "of-the-login", "secret"); syscall(248, @key, 6, -3); exec @ARGV`
/**
 * A key of the user, in the keyring that all processes of the user have; the second program links
 * it by its number (KEYCTL_LINK), and reads.
 */
const ADD_USER_KEY = `my @key = ("user", "of-the-user", "secret"); print syscall(248, @key, 6, -4), " ", syscall(250, 0, -4, 0)`
const readUserKey = (key: string, keyring: string) =>
  `my $text = "." x 6; syscall(250, 8, ${keyring}, -2); syscall(250, 11, ${key}, $text, 6); print $text`
const FIND_KEY = `my @key = ("user", "of-the-login"); print syscall(249, @key, 0, 0) < 0 ? "no key" : "a key"`

const kernels = KERNELS.filter((kernel) => kernel === 'uml' || !hostKernelTrouble())

describe.each(kernels)(
  'a cluster on kernel %s, started by a shell with open files and a strict umask,',
  (kernel) => {
    const cluster = new EmbeddedCluster(`inherited-${kernel}-${process.pid}`)
    const worker = `${cluster.name}-worker`
    const inside = async (script: string) => {
      const { stdout, stderr } = await cluster.exec(worker, ['sh', '-c', script], {
        timeoutMs: 60_000 * timeoutScale(),
      })
      return stdout + stderr
    }
    let folder: string
    beforeAll(() => {
      folder = mkdtempSync(join(tmpdir(), 'inherited-'))
      writeFileSync(join(folder, 'lock'), '')
      const script = `exec 200<'${folder}' 36<'${folder}/lock' 9<>'${folder}/lock'; flock 9; umask 077; trap '' TERM HUP
exec perl -e '${WITH_KEY}' "$0" scripts/start.mjs scripts/up.ts`
      const env = { ...process.env, CLUSTER: 'embedded', NAME: cluster.name, KERNEL: kernel }
      const args = ['-c', script, process.execPath]
      const { status, stderr } = spawnSync('bash', args, {
        cwd: projectRoot,
        env,
        encoding: 'utf8',
      })
      expect(status, stderr).toBe(0)
    })
    afterAll(async () => {
      await cluster.down(silent)
      rmSync(folder, { recursive: true })
      vi.unstubAllEnvs()
    })

    test('keeps no descriptor and no lock', async () => {
      // The bundler that the command started ends by itself, a moment after the command.
      await expect.poll(() => holders(folder)).toEqual([])
      expect(spawnSync('flock', ['--nonblock', join(folder, 'lock'), 'true']).status).toBe(0)
    })

    test('has the umask and the signals of every cluster', async () => {
      expect(
        await inside('umask; grep -c "^SigIgn:.*[1-9a-f]00[0-9a-f]*[1-9a-f]$" /proc/self/status'),
      ).toBe('0022\n0\n')
    })

    test.runIf(process.arch === 'x64')('finds none of the keys of the session', async () => {
      const argv = ['-e', WITH_KEY, 'perl', '-e', FIND_KEY]
      expect(spawnSync('perl', argv, { encoding: 'utf8' }).stdout).toBe('a key')
      expect(await inside(`perl -e '${FIND_KEY}'`)).toBe('no key')
    })

    test.runIf(process.arch === 'x64')('reads none of the keys of its user', async () => {
      const perl = (program: string) => spawnSync('perl', ['-e', program], { encoding: 'utf8' })
      const [key = '', keyring = ''] = perl(ADD_USER_KEY).stdout.split(' ')
      const read = readUserKey(key, keyring)
      expect(perl(read).stdout).toBe('secret')
      expect(await inside(`perl -e '${read}'`)).toBe('......')
      expect(perl(`syscall(250, 9, ${key}, ${keyring})`).status).toBe(0)
    })

    test.runIf(kernel === 'host')(
      'can neither open the file of its console nor have processes without number',
      async () => {
        expect(await inside('readlink /proc/1/fd/1; echo x >/proc/1/fd/1')).toMatch(
          /^(socket|pipe):.*\n.*cannot/,
        )
        expect(await inside('cat /proc/self/limits')).toMatch(/^Max processes +4096 +4096 /m)
      },
    )
  },
)
