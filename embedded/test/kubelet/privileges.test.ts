import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type GuestCluster, startGuestCluster, worker } from './guest-cluster.ts'

let cluster: GuestCluster

/** What the main process of each Pod may do, as the kernel says it. */
const RIGHTS = "grep -E '^(Cap(Prm|Bnd|Eff|Inh|Amb)|NoNewPrivs)' /proc/self/status"
const image = 'tools'
const command = ['sh', '-c', `${RIGHTS}; exec sleep infinity`]
const readinessProbe = { exec: { command: ['sh', '-c', `${RIGHTS} >/tmp/probe`] } }

beforeAll(async () => {
  cluster = await startGuestCluster()
  const pod = (name: string, securityContext: object) =>
    cluster.create(name, worker, { image, command, readinessProbe, securityContext })
  const volumes = [{ name: 'memory', emptyDir: { medium: 'Memory' } }]
  const volumeMounts = [{ name: 'memory', mountPath: '/dev/shm' }]
  cluster.create('with-volume', worker, { image, volumeMounts }, { volumes })
  pod('ordinary', {})
  pod('admin', { capabilities: { add: ['NET_ADMIN'], drop: ['KILL'] } })
  pod('bare', { capabilities: { drop: ['ALL'] }, allowPrivilegeEscalation: false })
  pod('privileged', { privileged: true })
  await cluster.ready('ordinary', 'admin', 'bare', 'privileged', 'with-volume')
})

afterAll(() => cluster?.stop())

const run = async (pod: string, script: string) => {
  const { stdout, exitCode } = await cluster.exec(pod, script)
  return { stdout: stdout.trim(), exitCode }
}

const allowed = (mask: string, noNewPrivileges = 0) =>
  new RegExp(
    `^CapInh:\t0+\nCapPrm:\t0*${mask}\nCapEff:\t0*${mask}\nCapBnd:\t0*${mask}\nCapAmb:\t0+\nNoNewPrivs:\t${noNewPrivileges}$`,
  )

describe.each([
  // containerd's a80425fb without CAP_MKNOD, bit 27.
  ['ordinary', allowed('a00425fb')],
  ['admin', allowed('a00435db')],
  ['bare', allowed('0', 1)],
  ['privileged', allowed('1f{10}')],
])('the rights of Pod %s', (pod, rights) => {
  test('apply to its process, a command and a probe', async () => {
    expect((await cluster.logs(pod)).trim()).toMatch(rights)
    for (const source of [RIGHTS, 'cat /tmp/probe']) expect((await run(pod, source)).stdout, source).toMatch(rights)
  })
})

/** What only root of the whole guest can do, each on its own; prints those that worked. */
const attempts = {
  'mount hostfs': 'mkdir -p /tmp/host && mount -t hostfs none /tmp/host -o /',
  'mount tmpfs': 'mount -t tmpfs none /mnt',
  'remount /proc/sys': 'mount -o remount,rw,bind /proc/sys',
  unmount: 'umount /proc/sys',
  'device node': 'mknod /tmp/node c 4 64',
  'load a module': 'modprobe nlmon',
  'set a sysctl': 'echo 1 >/proc/sys/net/ipv4/ip_forward',
  'program for every crash': 'echo "|/tmp/x" >/proc/sys/kernel/core_pattern',
  'change /sys': 'echo /tmp/x >/sys/kernel/uevent_helper',
  sysrq: 'echo h >/proc/sysrq-trigger',
  namespace: 'unshare --mount true',
  'namespaces of the guest':
    'nsenter --target 1 --mount --net true && nsenter --net=/proc/1/ns/net ip link add x type dummy',
  'serial line': '[ -e /dev/ttyS0 ]',
  'file of a node': 'test -e /run/nodes',
  'old root': 'cd / && [ "$(ls -di ../../.. | cut -d" " -f1)" != "$(ls -di / | cut -d" " -f1)" ]',
  'leave by chroot': `perl -e 'mkdir "/tmp/r"; opendir my $d, "/"; chroot "/tmp/r" or exit 1; chdir "/proc/self"; open STDERR, ">&-";
    chdir $d; chdir ".." for 1..9; chroot "."; exit !(-d "run/nodes")'`,
  'set the clock': 'date -s @1',
}
const script = Object.entries(attempts)
  .map(([name, one]) => `if ( ${one} ) >&- 2>&-; then echo '${name}'; fi`)
  .join('\n')

test.each(['ordinary', 'bare', 'admin'])(
  'root of Pod %s can change nothing of the kernel or of its node',
  async (pod) => {
    expect((await run(pod, script)).stdout).toBe('')
  },
)

test('root of a privileged Pod can change the kernel and its node', async () => {
  const { stdout } = await run('privileged', script)
  for (const name of ['mount tmpfs', 'device node', 'load a module', 'set a sysctl', 'serial line'])
    expect(stdout.split('\n')).toContain(name)
})

test('an added capability takes effect', async () => {
  expect(await run('ordinary', 'ip link add dummy0 type dummy')).toMatchObject({ exitCode: 2 })
  expect(await run('admin', 'ip link add dummy0 type dummy')).toMatchObject({ exitCode: 0 })
})

test('a Pod has the devices of a container, and its own terminals and shared memory', async () => {
  const { stdout } = await run('ordinary', 'ls /dev | xargs; echo x >/dev/null; head -c 4 /dev/urandom | wc -c')
  const links = 'fd full null ptmx pts random shm stderr stdin stdout tty urandom zero'
  expect(stdout).toBe(`${links}\n4`)
  expect(await run('ordinary', 'echo x >/dev/shm/x && ls /dev/pts')).toMatchObject({ stdout: 'ptmx' })
  expect(await run('with-volume', 'mount | grep -c " /dev/shm "; echo x >/dev/shm/x')).toMatchObject({ stdout: '2' })
  expect((await run('privileged', 'ls /dev/shm')).stdout).not.toContain('x')
  expect((await run('ordinary', 'ls /sys/class/net')).stdout).toMatch(/^eth0\nlo$/)
})

test('a program with which a Pod replaced one of ours runs with the rights of the Pod', async () => {
  const fake = `#!/bin/sh\n${RIGHTS} >/tmp/fake`
  await run('ordinary', `for one in nsenter setpriv sh; do printf '%s' '${fake}' >/tmp/$one; chmod +x /tmp/$one; done`)
  await run('ordinary', 'for one in nsenter setpriv; do mv -f /tmp/$one /usr/bin/; done')
  expect((await run('ordinary', RIGHTS)).stdout).toMatch(allowed('a00425fb'))
})

test('a container cannot write to the program that starts it', async () => {
  const { stderr } = await cluster.machine.run(['sh', '-c', 'echo >/usr/lib/uml/confine'])
  expect(stderr).toContain('Read-only file system')
})

test('the output of short commands is complete, also of many at a time', async () => {
  const errors = await Promise.all(
    Array.from(
      { length: 60 },
      async (_, index) => (await cluster.machine.run(['sh', '-c', `echo ${index} >&2`])).stderr,
    ),
  )
  expect(errors).toEqual(errors.map((_, index) => `${index}\n`))
})
