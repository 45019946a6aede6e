import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  controlPlane,
  type GuestCluster,
  nodes,
  startGuestCluster,
  worker,
  worker2,
} from './guest-cluster.ts'

let cluster: GuestCluster

/** What the main process of each Pod may do, as the kernel reports it. */
const RIGHTS = "grep -E '^(Cap(Prm|Bnd|Eff|Inh|Amb)|NoNewPrivs)' /proc/self/status"
const image = 'tools'
const command = ['sh', '-c', `${RIGHTS}; exec sleep infinity`]
// It runs every 10 s, and the file is whole at any time. The usual second is too short for two
// programs on a busy machine.
const probes = `${RIGHTS} >/tmp/probing && mv /tmp/probing /tmp/probe`
const readinessProbe = { exec: { command: ['sh', '-c', probes] }, timeoutSeconds: 60 }

beforeAll(async () => {
  cluster = await startGuestCluster()
  cluster.create('web-a', worker, { image: 'nginx' })
  cluster.create('web-b', worker2, { image: 'docker.io/library/nginx:1.27' })
  cluster.create('shell', worker, { image: 'nicolaka/netshoot' })
  cluster.create('echo', worker2, { image: 'echo', env: [{ name: 'PORT', value: '9000' }] })
  const pod = (name: string, securityContext: object) =>
    cluster.create(name, worker, { image, command, readinessProbe, securityContext })
  const volumes = [{ name: 'memory', emptyDir: { medium: 'Memory' } }]
  const volumeMounts = [{ name: 'memory', mountPath: '/dev/shm' }]
  cluster.create('with-volume', worker, { image, volumeMounts }, { volumes })
  pod('ordinary', {})
  pod('admin', { capabilities: { add: ['NET_ADMIN'], drop: ['KILL'] } })
  pod('bare', { capabilities: { drop: ['ALL'] }, allowPrivilegeEscalation: false })
  pod('privileged', { privileged: true })
  await cluster.ready(
    'web-a',
    'web-b',
    'shell',
    'echo',
    'ordinary',
    'admin',
    'bare',
    'privileged',
    'with-volume',
  )
})

afterAll(() => cluster?.stop())

const addressOf = (name: string) => cluster.pod(name)?.status?.podIP ?? ''

describe('the network', () => {
  test('a Pod reaches nginx on its own node and on another one with its own address', async () => {
    const { stdout } = await cluster.exec(
      'shell',
      `curl -s ${addressOf('web-a')}; curl -s ${addressOf('web-b')}`,
    )
    expect(stdout).toBe(
      ['web-a', 'web-b']
        .map((name) => {
          const [node, ip] = [cluster.pod(name)?.spec.nodeName, addressOf(name)]
          return `Pod: ${name}\nNode: ${node}\nPod IP: ${ip}\nClient: ${addressOf('shell')}\n`
        })
        .join(''),
    )
  })

  test('Pods of one node have consecutive addresses of its range, and neighbours are reached through the node', async () => {
    expect(addressOf('web-a')).toMatch(/^10\.244\.1\.[23]$/)
    const { stdout } = await cluster.exec('shell', 'ip route')
    expect(stdout).toContain('default via 10.244.1.1 dev eth0')
    expect(stdout).toContain('10.244.1.0/24 via 10.244.1.1 dev eth0')
    expect(stdout).toContain('10.244.1.1 dev eth0 scope link')
  })

  test('a node reaches Pods of every node', async () => {
    for (const node of [controlPlane, worker, worker2]) {
      const { stdout } = await cluster.onNode(node, `hostname; curl -s ${addressOf('web-b')}`)
      expect(stdout).toMatch(new RegExp(`^${node}\nPod: web-b\n`))
    }
  })

  test('every node has the routes and rules of a kind node without kube-proxy', async () => {
    const { stdout } = await cluster.onNode(
      worker,
      'ip route; iptables-save; cat /proc/sys/net/ipv4/ip_forward',
    )
    expect(stdout).toContain('default via 172.18.0.1 dev eth0')
    for (const { podCIDR, address } of nodes.filter(({ name }) => name !== worker))
      expect(stdout).toContain(`${podCIDR} via ${address} dev eth0`)
    expect(stdout).toMatch(/10\.244\.1\.\d+ dev veth[0-9a-f]{8} scope host/)
    const recorded = 'data/recordings/kind-v1.20.2/baseline/nodes/k8s-guide-worker/iptables-save'
    const masquerading = readFileSync(recorded, 'utf8').match(/^-A .*KIND-MASQ-AGENT.*$/gm) ?? []
    expect(masquerading).toHaveLength(3)
    for (const rule of masquerading) expect(stdout).toContain(rule)
    for (const chain of ['KUBE-IPTABLES-HINT', 'KUBE-KUBELET-CANARY', 'KUBE-FIREWALL'])
      expect(stdout).toContain(`:${chain} -`)
    expect(stdout).toMatch(/\n1\n$/)
  })

  test('the address outside the cluster sees the node, because traffic that leaves is masqueraded', async () => {
    const server = await cluster.machine.spawn([
      'socat',
      'TCP-LISTEN:9999,reuseaddr',
      'SYSTEM:echo $SOCAT_PEERADDR',
    ])
    const ask = 'for i in 1 2 3 4 5 6 7 8 9; do socat -u TCP:172.18.0.1:9999 - && break; done'
    const { stdout } = await cluster.exec('shell', ask)
    server.kill('SIGKILL')
    expect(stdout.trim()).toBe('172.18.0.3')
  })

  test('the echo image answers TCP and UDP with the Pod and the client', async () => {
    const address = `${addressOf('echo')}:9000`
    const { stdout } = await cluster.exec(
      'shell',
      `echo one | socat - TCP:${address}; echo two | socat -t2 - UDP:${address}`,
    )
    const client = addressOf('shell').replaceAll('.', '\\.')
    expect(stdout).toMatch(
      new RegExp(
        `^Pod: echo\nClient: ${client}:\\d+\none\nPod: echo\nClient: ${client}:\\d+\ntwo\n$`,
      ),
    )
  })

  test('a Pod with hostNetwork has the address of its node', async () => {
    cluster.create('host', worker, { image: 'tools' }, { hostNetwork: true })
    await cluster.ready('host')
    expect(addressOf('host')).toBe('172.18.0.3')
    const { stdout } = await cluster.exec('host', `hostname; curl -s ${addressOf('web-b')}`)
    expect(stdout).toMatch(new RegExp(`^${worker}\n`))
    expect(stdout).toContain('Client: 172.18.0.3\n')
  })
})

describe('logs and exec', () => {
  test('nginx logs requests in the combined format, in order, with options', async () => {
    await cluster.exec(
      'shell',
      `curl -s ${addressOf('web-a')}/missing; curl -s ${addressOf('web-a')}/again`,
    )
    const line = (path: string) =>
      new RegExp(`${addressOf('shell')} - - \\[.*\\] "GET ${path} HTTP/1.1" 404 \\d+ "-" "curl/`)
    await expect.poll(() => cluster.logs('web-a')).toMatch(line('/again'))
    expect(await cluster.logs('web-a')).toMatch(line('/missing'))
    const last = await cluster.logs('web-a', { tailLines: 1, timestamps: true })
    expect(last).toMatch(line('/again'))
    expect(last).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z /)
    expect(await cluster.logs('web-a', { limitBytes: 5 })).toHaveLength(5)
    await expect(cluster.logs('web-a', { previous: true })).rejects.toThrow(
      'previous terminated container "main"',
    )
  })

  test('the page of nginx can be changed', async () => {
    const html = '/usr/share/nginx/html/index.html'
    expect((await cluster.exec('web-b', `echo changed >${html}`)).exitCode).toBe(0)
    const { stdout } = await cluster.exec(
      'shell',
      `curl -s ${addressOf('web-b')}; curl -s ${addressOf('web-a')}`,
    )
    expect(stdout).toMatch(/^changed\nPod: web-a\n/)
    await cluster.exec('web-b', `rm ${html}`)
  })

  test('exec joins the namespaces of the container and passes its exit code', async () => {
    const { stdout, exitCode } = await cluster.exec(
      'web-a',
      'hostname; cat /proc/1/comm; echo $HOSTNAME; exit 7',
    )
    expect(stdout).toBe('web-a\nnginx\nweb-a\n')
    expect(exitCode).toBe(7)
    expect(await cluster.machine.run(['sh', '-c', 'kill -SEGV $$'])).toMatchObject({
      exitCode: 139,
    })
    await expect(cluster.exec('nosuch', 'true')).rejects.toThrow('pods "nosuch" not found')
    await expect(cluster.exec('web-a', 'true', 'side')).rejects.toThrow(
      'container side is not valid for pod web-a',
    )
  })

  test('a program may open /dev/stdout and /dev/stderr', async () => {
    const { stdout, stderr } = await cluster.exec(
      'shell',
      'echo out >/dev/stdout; echo err >/dev/stderr',
    )
    expect([stdout, stderr]).toEqual(['out\n', 'err\n'])
  })
})

test('a file of the host cannot be changed from a node, a Pod or the guest itself', async () => {
  const before = readFileSync('/etc/hostname')
  const write = 'echo changed >/etc/hostname; cat /etc/hostname'
  expect((await cluster.exec('shell', write)).stdout).toBe('changed\n')
  expect((await cluster.onNode(worker2, write)).stdout).toBe('changed\n')
  expect((await cluster.machine.run(['sh', '-c', write])).stdout).toBe('changed\n')
  expect((await cluster.onNode(worker, 'cat /etc/hostname')).stdout).toBe(`${worker}\n`)
  expect(readFileSync('/etc/hostname')).toEqual(before)
})

test('the kernel has IPVS and ipset', async () => {
  const service =
    'ipvsadm -A -t 10.96.9.9:80 -s wlc && ipvsadm -Sn; ipset create x hash:ip,port && ipset list -n'
  expect((await cluster.onNode(worker, service)).stdout).toBe('-A -t 10.96.9.9:80 -s wlc\nx\n')
  expect((await cluster.onNode(worker2, 'ipvsadm -Sn; ipset list -n')).stdout).toBe('')
})

// Privileges.

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
    for (const source of [RIGHTS, 'cat /tmp/probe'])
      expect((await run(pod, source)).stdout, source).toMatch(rights)
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
  const { stdout } = await run(
    'ordinary',
    'ls /dev | xargs; echo x >/dev/null; head -c 4 /dev/urandom | wc -c',
  )
  const links = 'fd full null ptmx pts random shm stderr stdin stdout tty urandom zero'
  expect(stdout).toBe(`${links}\n4`)
  expect(await run('ordinary', 'echo x >/dev/shm/x && ls /dev/pts')).toMatchObject({
    stdout: 'ptmx',
  })
  expect(
    await run('with-volume', 'mount | grep -c " /dev/shm "; echo x >/dev/shm/x'),
  ).toMatchObject({ stdout: '2' })
  expect((await run('privileged', 'ls /dev/shm')).stdout).not.toContain('x')
  expect((await run('ordinary', 'ls /sys/class/net')).stdout).toMatch(/^eth0\nlo$/)
})

test('a program with which a Pod replaced one of ours runs with the rights of the Pod', async () => {
  const fake = `#!/bin/sh\n${RIGHTS} >/tmp/fake`
  await run(
    'ordinary',
    `for one in nsenter setpriv sh; do printf '%s' '${fake}' >/tmp/$one; chmod +x /tmp/$one; done`,
  )
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

test.each([false, true])(
  'a killed container with hostPID leaves no process (terminal: %s)',
  async (tty) => {
    const name = `host-pid-${tty}`
    const loop = [
      'sh',
      '-c',
      'sh -c "sleep .54321 &"; trap "" TERM; setsid sh -c "sleep 54321 & sleep 54321" & while :; do sleep 54321; done',
    ]
    cluster.create(name, worker, { image, command: loop, tty, stdin: tty }, { hostPID: true })
    await cluster.ready(name)
    const orphans = async () =>
      (await cluster.onNode(worker, 'ps -C sleep -o stat=,args= | grep -E "^Z|[.]54321"')).stdout
    await expect.poll(orphans).toBe('')
    cluster.api.delete('pods', 'default', name, { gracePeriodSeconds: 1 })
    await cluster.gone(name)
    const { stdout } = await cluster.onNode(worker, 'pgrep -c -x -f "sleep 54321"')
    expect(stdout.trim()).toBe('0')
  },
)

test.each([false, true])(
  'a container whose first process is killed ends with 137 (terminal: %s)',
  async (tty) => {
    const name = `killed-${tty}`
    const spec = { restartPolicy: 'Never' }
    cluster.create(name, worker, { image, command: ['sleep', '65432'], tty, stdin: tty }, spec)
    await cluster.ready(name)
    await cluster.onNode(worker, 'pkill -KILL -x -f "sleep 65432"')
    await cluster.until(name, 'its end', (_pod, { state }) => state?.terminated?.exitCode === 137)
  },
)

test('when the kubelets stop, no process and no namespace of a Pod is left', async () => {
  await cluster.kubelets.stop()
  const { stdout } = await cluster.machine.run([
    'sh',
    '-c',
    'ip netns | grep cni-; ls /run/pods; ps -e -o comm=',
  ])
  expect(stdout).not.toMatch(/cni-|nginx|confine|perl|dnsmasq/)
  expect(stdout.match(/^sleep$/gm)).toHaveLength(nodes.length)
})
