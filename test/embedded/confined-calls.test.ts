// What a patched module in User-Mode Linux could do to other programs of the user: it runs as code
// of the host's.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { CONFINE, type Confinement, confinedCommand } from '../../embedded/machine/confinement.ts'
import { ensurePackages } from '../../embedded/machine/packages.ts'
import { cacheFolder, projectRoot } from '../../host/layout.ts'
import { silent } from '../../host/progress.ts'

const VICTIM = `
use Socket;
socket(my $socket, AF_UNIX, SOCK_DGRAM, 0) or die $!;
bind($socket, pack_sockaddr_un($ARGV[0])) or die $!;
my ($queue, $segment) = (msgget(0, 0600), shmget(0, 4096, 0600));
$SIG{TERM} = sub { msgctl($queue, 0, 0); shmctl($segment, 0, 0); exit };
$SIG{USR1} = sub { open(my $handle, '>', "$ARGV[1]/signalled") };
$| = 1;
print "$queue $segment\\n";
sleep 600 while 1;`

let folder: string
let victim: ReturnType<typeof spawn>
let told: string[]
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'victim-'))
  writeFileSync(join(folder, 'file'), '')
  victim = spawn('perl', ['-e', VICTIM, join(folder, 'socket'), folder], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [ids] = victim.stdout ? await once(victim.stdout, 'data') : ['']
  told = String(ids).trim().split(' ')
})
afterEach(async () => {
  const ended = once(victim, 'exit')
  victim.kill('SIGTERM')
  await ended
  rmSync(folder, { recursive: true })
})

const attempts = join(projectRoot, 'test/embedded/attempts.pl')
const worked = (...command: string[]): string[] => {
  const args = ['perl', attempts, String(victim.pid), folder, join(folder, 'socket'), ...told]
  const [program = '', ...all] = [...command, ...args]
  const { stdout, stderr } = spawnSync(program, all, { encoding: 'utf8' })
  expect(stderr).toBe('')
  return stdout.trim().split('\n').filter(Boolean)
}
const wasSignalled = () => existsSync(join(folder, 'signalled'))
const isX64 = process.arch === 'x64'

test.runIf(isX64)('without confinement the attempts reach the other program', async () => {
  expect(worked()).toEqual(
    expect.arrayContaining([
      'a signal',
      'datagram from a pair',
      'file locked by its bytes',
      'file locked for a descriptor',
      'limits',
      'message',
      'new queue',
      'queued signal',
      'signal to a thread',
      'watched folder',
    ]),
  )
  await expect.poll(wasSignalled).toBe(true)
})

const older = ['perl', join(projectRoot, 'test/embedded/before-landlock-scopes.pl')]

test.runIf(isX64).each([
  [{ files: 'landlock', signals: 'landlock', systemCalls: true }, []],
  [{ files: 'landlock', signals: 'namespace', systemCalls: true }, older],
  [{ files: 'mounts', signals: 'namespace', systemCalls: true }, []],
] as [Confinement, string[]][])(
  'confined by %j %j, no attempt does',
  async (confinement, before) => {
    const tree = await ensurePackages(cacheFolder, silent)
    const works = (...options: string[]) => spawnSync(join(tree, CONFINE), options).status === 0
    const needed = [
      `--${confinement.files}`,
      confinement.signals === 'landlock' ? '--scoped' : '--apart',
      '--filter',
    ]
    // A machine without them can't prove it; `make doctor` shows that.
    if (!needed.every((option) => works(option))) return
    const read = ['/usr', '/bin', '/lib', '/lib64', '/etc', '/dev/null', projectRoot]
    expect(
      worked(...before, ...confinedCommand(tree, confinement, { read, write: [] }, [])),
    ).toEqual([])
    expect(wasSignalled()).toBe(false)
  },
)
