// What a patched module in User-Mode Linux could do to other programs of the user: it runs as code of the host's.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { CONFINE, detectConfinement } from '../../embedded/machine/confinement.ts'
import { ensurePackages } from '../../embedded/machine/packages.ts'
import { cacheFolder, projectRoot } from '../../host/layout.ts'
import { silent } from '../../host/progress.ts'

const VICTIM = `
use Socket;
socket(my $socket, AF_UNIX, SOCK_DGRAM, 0) or die $!;
bind($socket, pack_sockaddr_un($ARGV[0])) or die $!;
my ($queue, $segment) = (msgget(0, 0600), shmget(0, 4096, 0600));
$SIG{TERM} = sub { msgctl($queue, 0, 0); shmctl($segment, 0, 0); exit };
$| = 1;
print "$queue $segment\\n";
sleep 600;`

let folder: string
let victim: ReturnType<typeof spawn>
let told: string[]
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'victim-'))
  writeFileSync(join(folder, 'file'), '')
  victim = spawn('perl', ['-e', VICTIM, join(folder, 'socket')], {
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
  const words = ['perl', attempts, String(victim.pid), folder, join(folder, 'socket'), ...told]
  const [program = '', ...all] = [...command, ...words]
  const { stdout, stderr } = spawnSync(program, all, { encoding: 'utf8' })
  expect(stderr).toBe('')
  return stdout.trim().split('\n').filter(Boolean)
}
const isX64 = process.arch === 'x64'

test.runIf(isX64)('without confinement the attempts reach the other program', () => {
  expect(worked()).toEqual(
    expect.arrayContaining([
      'a signal',
      'datagram from a pair',
      'file locked by its bytes',
      'file locked for a descriptor',
      'limits',
      'message',
      'new queue',
      'watched folder',
    ]),
  )
})

test.runIf(isX64).each(['landlock', 'mounts'] as const)(
  'confined by %s, no attempt does',
  async (files) => {
    const tree = await ensurePackages(cacheFolder, silent)
    const found = detectConfinement(tree)
    // A machine without them can't prove it; `make doctor` shows that.
    if (
      !found.systemCalls ||
      found.files === undefined ||
      (files === 'landlock' && found.files !== files)
    )
      return
    const read = ['/usr', '/bin', '/lib', '/lib64', '/etc', '/dev/null', projectRoot].flatMap(
      (path) => ['--read', path],
    )
    const locks = spawnSync(join(tree, CONFINE), [`--${files}`]).status === 0
    if (!locks) return
    expect(worked(join(tree, CONFINE), `--${files}`, ...read, '--filter', '--')).toEqual([])
  },
)
