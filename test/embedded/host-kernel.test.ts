// The embedded cluster on this machine's own kernel: what it does to the machine (nothing), and
// mode nftables in the kernel.
import { execFileSync, spawnSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { chooseKernel, kernelForNew } from '../../cluster/doctor/choose.ts'
import type { KernelFacts } from '../../cluster/doctor/kernel-probe.ts'
import { EmbeddedCluster } from '../../cluster/embedded.ts'
import { kubeClient } from '../../cluster/kube-client.ts'
import { flushNat } from '../../cluster/kube-proxy/flush-nat.ts'
import { switchMode } from '../../cluster/kube-proxy/switch-mode.ts'
import { kubectlPath } from '../../cluster/programs.ts'
import { readNode } from '../../cluster/snapshot.ts'
import {
  CONFINE,
  ensurePackages,
  hostKernelTrouble,
  readDaemonState,
} from '../../embedded/index.ts'
import { forbiddingSetting } from '../../embedded/machine/host-kernel.ts'
import { cacheFolder, projectRoot } from '../../host/layout.ts'
import { silent } from '../../host/progress.ts'
import { timeoutScale, waitFor } from '../../host/wait.ts'
import { rulesLeft } from './lab-rules.ts'

const trouble = hostKernelTrouble()
if (trouble)
  console.log(
    `Not tested, as namespaces can't be used here: the cluster on this machine's own kernel (${trouble.detail}).`,
  )

const cluster = new EmbeddedCluster(`host-kernel-${process.pid}`)
const worker = `${cluster.name}-worker`
const inGuest = async (script: string, node = worker) =>
  (await cluster.exec(node, ['sh', '-c', script], { timeoutMs: 60_000 * timeoutScale() })).stdout

/** A value that changes by itself, or that the kernel gives out again to each reader. */
const MOVES =
  /count|random|uuid|pid|nr_|-nr|state|stat$|usage|next|last|inode|dentry|aio|ns_|bpf|pty|perf|sched/

/** Settings that every namespace of the network shares, or that are the machine's. */
function settings(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (MOVES.test(entry.name)) return []
    if (entry.isDirectory()) return settings(path)
    try {
      return [`${path}: ${readFileSync(path, 'utf8').trim()}`]
    } catch {
      return []
    }
  })
}

const folders = (root: string): string[] =>
  readdirSync(root, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? [join(root, entry.name), ...folders(join(root, entry.name))] : [],
  )

const print = (command: string, ...args: string[]) => {
  try {
    return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
      .split('\n')
      .filter((line) => !line.startsWith('#'))
      .map((line) => line.replace(/\[\d+:\d+\]/, ''))
  } catch {
    return []
  }
}

/** What of this machine a cluster could change. */
const machineNow = () => ({
  rules: [print('iptables-save'), print('ip6tables-save'), print('nft', 'list', 'ruleset')],
  sets: print('ipset', 'save'),
  servers: print('ipvsadm', '-Sn'),
  links: print('ip', '-o', 'link').map((line) => line.replace(/ qlen \d+/, '')),
  addresses: print('ip', '-o', 'addr').map((line) => line.replace(/valid_lft.*/, '')),
  routes: ['-4', '-6'].flatMap((family) => print('ip', family, 'route', 'show', 'table', 'all')),
  policies: [print('ip', 'rule'), print('tc', 'qdisc')],
  mounts: readFileSync('/proc/self/mountinfo', 'utf8'),
  cgroups: existsSync('/sys/fs/cgroup')
    ? folders('/sys/fs/cgroup').filter((path) => path.includes(cluster.name))
    : [],
  hostname: readFileSync('/proc/sys/kernel/hostname', 'utf8'),
  settings: [
    ...settings('/proc/sys/net'),
    ...settings('/proc/sys/kernel'),
    ...settings('/proc/sys/vm'),
  ],
})

/**
 * Processes of this machine that see the cluster's guest: those in one of its process namespaces.
 */
const guestProcesses = (namespace: string) =>
  readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readlinkSync(`/proc/${pid}/ns/net`) === namespace
    } catch {
      return false
    }
  })

let before: ReturnType<typeof machineNow>
beforeAll(async () => {
  if (trouble) return
  before = machineNow()
  vi.stubEnv('KERNEL', 'host')
  await cluster.up(silent)
})
afterAll(async () => {
  vi.unstubAllEnvs()
  await cluster.down(silent)
})

describe.skipIf(trouble)('on this machine', () => {
  /**
   * What root of a guest may try; prints what it reaches or changes. `folder` is one of this
   * machine's.
   */
  const attempts = (folder: string) => `exec 2>&1
[ ! -e ${folder} ] || echo "reaches ${folder}"
for file in /usr/canary /etc/canary /var/canary /tmp/canary /root/canary; do echo x >$file; done
for name in $(find /proc/sys/kernel /proc/sys/vm /proc/sys/fs /sys/kernel -maxdepth 2 -type f -writable 2>/dev/null); do
  # These belong to the namespaces of System V IPC and of processes.
  case $name in */msg*|*/sem*|*/shm*|*/auto_msgmni|*/ns_last_pid|*/pid_max|*/mqueue/*) ;; *) echo "may write $name" ;; esac
done
[ ! -w /proc/sysrq-trigger ] || echo 'may write sysrq-trigger'
unshare -m sh -c 'mount -o remount,rw /usr; umount -l /usr; [ ! -e /usr/bin ] || echo a lower /usr shows'
mknod /tmp/disk b 254 0 && head -c 1 /tmp/disk >/dev/null 2>&1 && echo 'reads a disk'
mount -t cgroup2 none /mnt && mkdir /mnt/canary && echo 'makes a cgroup'
modprobe -a dummy ip_vs && echo 'loads a module'
ls -d /proc/1/root${folder} /proc/1/cwd${folder} 2>/dev/null
iptables -A INPUT -j DROP; ip6tables -A INPUT -j DROP; nft add table inet canary; ipset create canary hash:ip
hostname canary; ip link add canary type bridge; ip addr add 10.99.99.99/32 dev lo
echo end`
  const reached = /reaches|may write|lower|reads a disk|makes a cgroup|loads a module|canary-/
  const restore =
    'iptables -D INPUT -j DROP; ip6tables -D INPUT -j DROP; nft delete table inet canary; ipset destroy canary'

  async function leavesNoTrace(attempt: (script: string) => Promise<string>): Promise<void> {
    const folder = mkdtempSync(join(tmpdir(), 'canary-'))
    writeFileSync(join(folder, 'file'), 'of the host\n', { mode: 0o666 })
    mkdirSync(join(folder, 'open'), { mode: 0o777 })
    try {
      const output = await attempt(attempts(folder))
      expect(output).toMatch(/end\n$/)
      expect(output).not.toMatch(reached)
      const canaries = ['/usr/canary', '/etc/canary', '/var/canary', '/root/canary']
      expect(canaries.filter((path) => existsSync(path))).toEqual([])
      expect(readFileSync(join(folder, 'file'), 'utf8')).toBe('of the host\n')
      expect(readdirSync(folder).sort()).toEqual(['file', 'open'])
      expect(machineNow()).toEqual(before)
    } finally {
      await inGuest(restore)
      rmSync(folder, { recursive: true })
    }
  }

  test('root of a node changes no file, setting, device or mount of it', async () => {
    await leavesNoTrace(inGuest)
  })

  test('root of a privileged Pod in the namespaces of its node changes nothing either', async () => {
    const { core } = await kubeClient(cluster)
    const container = {
      name: 'canary',
      image: 'nginx',
      securityContext: { privileged: true },
      volumeMounts: [{ name: 'node', mountPath: '/node' }],
    }
    const spec = {
      nodeName: worker,
      hostNetwork: true,
      hostPID: true,
      hostIPC: true,
      containers: [container],
      volumes: [{ name: 'node', hostPath: { path: '/' } }],
    }
    await core.createNamespacedPod({
      namespace: 'default',
      body: { metadata: { name: 'canary' }, spec },
    })
    const ready = async () => {
      const { status } = await core.readNamespacedPod({ namespace: 'default', name: 'canary' })
      return status?.containerStatuses?.[0]?.ready === true
    }
    await waitFor('the privileged Pod', 30_000, ready)
    const path = await kubectlPath(silent)
    const inPod = (...command: string[]) =>
      execFileSync(path, ['--kubeconfig', cluster.kubeconfig, 'exec', 'canary', '--', ...command], {
        encoding: 'utf8',
      })
    // From its own root, in the namespaces of the first process of the guest, and from the root of
    // the node.
    for (const place of [[], ['nsenter', '-t', '1', '-m', '-u', '-i', '-n', '-p', '-C']])
      await leavesNoTrace(async (script) => inPod(...place, 'sh', '-c', script))
    await leavesNoTrace(async (script) => {
      const printed = inPod('chroot', '/node', 'sh', '-c', script)
      expect(inPod('chroot', '/node', 'nft', 'list', 'tables')).toContain('canary')
      return printed
    })
  })

  test.each(['legacy', 'nft'] as const)(
    'rules of labs written through iptables-%s are removed',
    async (backend) => {
      expect(await rulesLeft(cluster, worker, backend)).toEqual([
        expect.stringContaining('--comment lab-50'),
      ])
    },
  )

  test('has no generic netlink, so ipvsadm uses setsockopt(2), which IPVS allows in user namespaces', async () => {
    expect(await inGuest('ip macsec show 2>&1 || true')).toContain('Protocol not supported')
    if (existsSync('/proc/net/ip_vs'))
      expect(await inGuest('ipvsadm -Ln')).toContain('IP Virtual Server')
  })

  test('with kill -9 of its daemon everything is gone, and nothing of the machine has changed', async () => {
    const doomed = new EmbeddedCluster(`${cluster.name}-doomed`)
    await doomed.up(silent)
    const [host, guest] = [
      readlinkSync('/proc/self/ns/net'),
      (await doomed.exec(`${doomed.name}-worker`, ['readlink', '/proc/self/ns/net'])).stdout.trim(),
    ]
    expect(guest).not.toBe(host)
    await doomed.exec(`${doomed.name}-worker`, [
      'sh',
      '-c',
      'setsid sleep 1000 >/dev/null 2>&1 & sleep 0.1',
    ])
    expect(guestProcesses(guest).length).toBeGreaterThan(1)
    process.kill(readDaemonState(doomed.name)?.pid ?? 0, 'SIGKILL')
    await waitFor('its processes to end', 10_000, async () => guestProcesses(guest).length === 0)
    await doomed.down(silent)
    expect(machineNow()).toEqual(before)
  })
})

describe.skipIf(trouble)('mode nftables in the kernel', () => {
  /** The kernel numbers tables as they are made. */
  const table = async () =>
    /"family": "ip", "name": "kube-proxy", "handle": \d+/.exec(
      await inGuest('nft -j list tables'),
    )?.[0]
  const matches = () =>
    waitFor(
      'the tables to equal the prediction',
      20_000,
      async () => (await differences()).length === 0,
      400,
    )
  const differences = async () => {
    const { evaluate } = await import('../../grading/evaluate.ts')
    const { openCluster } = await import('../../grading/live-cluster.ts')
    const { nodes } = await (await openCluster(cluster)).snapshot()
    return nodes
      .flatMap((node) => evaluate(node, 'nftables').differences)
      .filter(({ where }) => 'nft' in where)
  }

  test('changes are written into the present table, and packets take the predicted path', async () => {
    const { core, apps } = await kubeClient(cluster)
    await switchMode(cluster, 'nftables', { progress: silent, force: true })
    await matches()
    const first = await table()
    expect(first).toBeDefined()
    const labels = { app: 'echo' }
    const ports = [{ name: 'tcp', port: 80, targetPort: 80 as never, protocol: 'TCP' }]
    await apps.createNamespacedDeployment({
      namespace: 'default',
      body: {
        metadata: { name: 'echo' },
        spec: {
          replicas: 3,
          selector: { matchLabels: labels },
          template: {
            metadata: { labels },
            spec: { containers: [{ name: 'echo', image: 'nginx' }] },
          },
        },
      },
    })
    const service = async (name: string, spec: object) =>
      (
        await core.createNamespacedService({
          namespace: 'default',
          body: { metadata: { name }, spec: { selector: labels, ports, ...spec } },
        })
      ).spec
    const plain = await service('plain', { type: 'NodePort' })
    const sticky = await service('sticky', { sessionAffinity: 'ClientIP' })
    const empty = await service('empty', { selector: { app: 'no-such-pod' } })
    await waitFor('three Pods', 30_000, async () => {
      const { status } = await apps.readNamespacedDeployment({ namespace: 'default', name: 'echo' })
      return status?.readyReplicas === 3
    })
    await matches()
    const ask = async (to: string, times: number) =>
      (
        await inGuest(
          `for i in $(seq ${times}); do curl -s -m 3 http://${to}/ || echo "code $?"; done`,
        )
      ).match(/Pod: \S+|code \d+/g)
    expect(new Set(await ask(`${plain?.clusterIP}:80`, 40)).size).toBe(3)
    expect(new Set(await ask(`172.18.0.2:${plain?.ports?.[0]?.nodePort}`, 40)).size).toBe(3)
    expect(new Set(await ask(`${empty?.clusterIP}:80`, 2))).toEqual(new Set(['code 7']))
    const [kept] = (await ask(`${sticky?.clusterIP}:80`, 1)) ?? []
    // One more Pod: only what differs is written, so that the table is the same one, and who was
    // remembered still is.
    await apps.patchNamespacedDeployment({
      namespace: 'default',
      name: 'echo',
      body: [{ op: 'replace', path: '/spec/replicas', value: 4 }],
    })
    await waitFor('four Pods', 30_000, async () => {
      const { status } = await apps.readNamespacedDeployment({ namespace: 'default', name: 'echo' })
      return status?.readyReplicas === 4
    })
    await matches()
    expect(new Set(await ask(`${sticky?.clusterIP}:80`, 12))).toEqual(new Set([kept]))
    expect(new Set(await ask(`${plain?.clusterIP}:80`, 60)).size).toBe(4)
    for (const name of ['plain', 'sticky', 'empty'])
      await core.deleteNamespacedService({ namespace: 'default', name })
    await matches()
    expect(await table()).toBe(first)
    // A new kube-proxy, too, writes into the table that it finds.
    await switchMode(cluster, 'nftables', { progress: silent, force: true })
    await matches()
    expect(await table()).toBe(first)
    // More rules than one transaction may contain: the limit of a user namespace was reached at
    // about 100 Services.
    const many = Array.from({ length: 250 }, (_, index) => `many-${index}`)
    await Promise.all(many.map((name) => service(name, {})))
    await matches()
    await Promise.all(
      many.map((name) => core.deleteNamespacedService({ namespace: 'default', name })),
    )
    await matches()
    await switchMode(cluster, 'iptables', { progress: silent })
    expect(await table()).toBeUndefined()
    expect((await readNode(cluster, worker)).files.get('iptables-save')).toContain('KUBE-SERVICES')
  })
})

describe('what forbids namespaces', () => {
  test.each([
    [
      'kernel/apparmor_restrict_unprivileged_userns',
      '1',
      'sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0',
    ],
    ['kernel/unprivileged_userns_clone', '0', 'sudo sysctl kernel.unprivileged_userns_clone=1'],
    ['user/max_user_namespaces', '0', 'sudo sysctl user.max_user_namespaces=15000'],
  ])('%s = %s is reported with the command that changes it', (name, value, fix) => {
    const root = mkdtempSync(join(tmpdir(), 'sysctls-'))
    mkdirSync(join(root, name, '..'), { recursive: true })
    writeFileSync(join(root, name), `${value}\n`)
    expect(forbiddingSetting(root)).toMatchObject({ fix })
    writeFileSync(join(root, name), value === '0' ? '1\n' : '0\n')
    expect(forbiddingSetting(root)).toBeUndefined()
    rmSync(root, { recursive: true })
  })
})

describe.skipIf(trouble)('IPv6 beside mode nftables', () => {
  /**
   * What kube-proxy's proxier for IPv6 writes on a node without any IPv6 Service, a set of IPVS
   * mode, and rules of another program.
   */
  const earlierMode = `ip6tables-restore <<'END'
*nat
:KUBE-SERVICES - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-NODEPORTS - [0:0]
:OWN - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
-A POSTROUTING -s fd00::/64 -j OWN
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-SERVICES ! -d ::1/128 -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
COMMIT
*filter
:KUBE-FORWARD - [0:0]
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A INPUT -s fd00::1/128 -j ACCEPT
COMMIT
END
ipset create KUBE-6-CLUSTER-IP hash:ip,port family inet6`
  const rules = async () =>
    (await inGuest('ip6tables-save'))
      .split('\n')
      .filter((line) => line.includes('KUBE-') || line.includes('fd00'))
  const own = ['-A INPUT -s fd00::1/128 -j ACCEPT', '-A POSTROUTING -s fd00::/64 -j OWN']

  test('leftovers of an earlier mode are removed when kube-proxy starts, and by flush-nat', async () => {
    await inGuest(earlierMode)
    expect((await rules()).length).toBeGreaterThan(10)
    await switchMode(cluster, 'nftables', { progress: silent, force: true })
    // As kube-proxy does: both families, but for the chain that rules of both modes jump to, and no
    // set of IPv6.
    expect((await rules()).sort()).toEqual(
      [
        ...own,
        ':KUBE-MARK-MASQ - [0:0]',
        '-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000',
      ].sort(),
    )
    expect(await inGuest('ipset list -n')).toContain('KUBE-6-CLUSTER-IP')
    const report = (await flushNat(cluster, { progress: silent })).find(
      ({ node }) => node === worker,
    )
    expect(report?.removed).toEqual([
      'nat: 1 chain, 1 rule',
      'IPv6 nat: 1 chain, 1 rule',
      '1 ipset',
    ])
    expect((await rules()).sort()).toEqual(own)
    expect(await inGuest('ipset list -n')).not.toContain('KUBE-6')
  })

  test('a table of either family alone is removed when another mode starts', async () => {
    await inGuest('nft delete table ip6 kube-proxy')
    await switchMode(cluster, 'iptables', { progress: silent })
    expect(await inGuest('nft list tables')).not.toContain('kube-proxy')
  })
})

describe.skipIf(trouble)('where AppArmor forbids namespaces', () => {
  /**
   * Runs a command as user 1000 where no further user namespace can be had (the kernel counts them,
   * user_namespaces(7)), and AppArmor's setting is there to be read; that setting alone is not
   * real.
   */
  function whereForbidden(script: string, env: Record<string, string> = {}) {
    const folder = mkdtempSync(join(tmpdir(), 'settings-'))
    for (const name of [
      'hostname',
      'osrelease',
      'ostype',
      'pid_max',
      'cap_last_cap',
      'overflowuid',
      'overflowgid',
    ])
      writeFileSync(join(folder, name), readFileSync(join('/proc/sys/kernel', name)))
    writeFileSync(join(folder, 'apparmor_restrict_unprivileged_userns'), '1\n')
    const command = `set -e
mount --bind '${folder}' /proc/sys/kernel
echo 1 >/proc/sys/user/max_user_namespaces
exec unshare --user --map-user=1000 --map-group=1000 node scripts/start.mjs ${script}`
    const args = ['--user', '--map-root-user', '--mount', 'sh', '-c', command]
    const own = {
      CLUSTER: 'embedded',
      NAME: `${cluster.name}-forbidden`,
      NO_COLOR: '1',
      KERNEL: '',
    }
    const options = {
      cwd: projectRoot,
      env: { ...process.env, ...own, ...env },
      encoding: 'utf8',
    } as const
    const { status, stdout, stderr } = spawnSync('unshare', args, options)
    rmSync(folder, { recursive: true })
    return { status, stdout, stderr }
  }
  const setting = 'sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0'

  test('make doctor names the setting, the command that changes it, and the other kernel', () => {
    const { stdout, stderr } = whereForbidden('scripts/doctor.ts')
    const table = stdout.replace(/\n {9,}(?=\S)/g, ' ')
    expect(table, stderr).toMatch(
      / • +KERNEL=host +AppArmor forbids ordinary users user namespaces/,
    )
    expect(stdout).toContain(`→ ${setting}\n`)
    expect(table).toMatch(/ ✓ lab 7 +KERNEL=uml +without the steps that need NAT in nf_tables/)
  })

  test('KERNEL=host is refused in one sentence with both alternatives', () => {
    const { status, stderr } = whereForbidden('scripts/up.ts', { KERNEL: 'host' })
    expect(stderr).toMatch(
      /KERNEL=host can't be used here, AppArmor forbids .*: run `sudo sysctl .*=0` first, or leave KERNEL out\.\n$/,
    )
    expect(stderr).toContain(setting)
    expect(status).toBe(2)
  })
})

test.skipIf(trouble)(
  'a seccomp filter that forbids namespaces is named by make doctor',
  async () => {
    const confine = join(await ensurePackages(cacheFolder, silent), CONFINE)
    const args = [
      '--no-new-privs',
      '--filter',
      '--',
      'node',
      'scripts/start.mjs',
      'scripts/doctor.ts',
    ]
    const env = { ...process.env, CLUSTER: 'embedded', NO_COLOR: '1', KERNEL: '' }
    const { stdout, stderr } = spawnSync(confine, args, {
      cwd: projectRoot,
      env,
      encoding: 'utf8',
    })
    expect(stdout.replace(/\n {9,}(?=\S)/g, ' '), stderr).toMatch(
      / • +KERNEL=host +a seccomp filter, as container engines set one, forbids user namespaces(\n| +✓)/,
    )
  },
)

describe('KERNEL', () => {
  const all: KernelFacts = {
    release: '6.12',
    ipvs: true,
    schedulers: ['rr'],
    ipset: true,
    dummy: true,
    extensions: ['recent'],
    natLegacy: true,
    natNft: true,
    nodeBackend: 'legacy',
    inotifyInstances: 1,
    inotifyWatches: 1,
    freeDisk: 1,
  }
  const lab = (number: number, kernel: 'ipvs'[] = [], kernelOfSteps: 'nft'[] = []) => ({
    number,
    title: '',
    kernel,
    kernelOfSteps,
  })
  const without = { ...all, ipvs: false }
  test.each([
    [
      'the one whose modules can be loaded, even where both can do all',
      undefined,
      { kernel: all },
      lab(2, ['ipvs']),
      'uml',
    ],
    [
      'User-Mode Linux for IPVS where the other has none',
      'auto',
      { kernel: without },
      lab(2, ['ipvs']),
      'uml',
    ],
    [
      'User-Mode Linux where no dummy device can be made',
      'auto',
      { kernel: { ...all, dummy: false } },
      lab(1),
      'uml',
    ],
    [
      'the one with nftables for a lab with steps in that mode',
      'auto',
      { kernel: without },
      lab(7, [], ['nft']),
      'host',
    ],
    [
      'User-Mode Linux where nothing is known of the other',
      undefined,
      {},
      lab(7, [], ['nft']),
      'uml',
    ],
    [
      'User-Mode Linux where namespaces are forbidden',
      'auto',
      { trouble: { detail: 'x' } },
      lab(7, [], ['nft']),
      'uml',
    ],
    ['the one that is named', 'uml', { kernel: all }, lab(7, [], ['nft']), 'uml'],
    ['the other one that is named', 'host', { kernel: without }, lab(2, ['ipvs']), 'host'],
  ] as const)('takes %s', (_what, requested, hostKernel, of, kernel) => {
    expect(chooseKernel(requested, { hostKernel }, of)).toMatchObject({ kernel })
  })

  const uml = 'User-Mode Linux is built for x86-64 only, and this is "arm64"'

  test.each([
    ['IPVS that is not there', undefined, { kernel: without }, lab(2, ['ipvs'])],
    ['nothing known', 'auto', {}, undefined],
  ] as const)(
    "is this machine's own where User-Mode Linux can not run, with %s",
    (_what, requestedName, hostKernel, of) => {
      expect(chooseKernel(requestedName, { hostKernel, uml }, of)).toEqual({ kernel: 'host' })
    },
  )

  test('uml is refused if it cannot run, and auto if neither can', () => {
    expect(chooseKernel('uml', { uml })).toEqual({ refusal: `${uml}: leave KERNEL out.` })
    const hostKernel = { trouble: { detail: 'AppArmor forbids it', fix: 'sudo sysctl x=0' } }
    expect(chooseKernel('auto', { hostKernel, uml })).toEqual({
      refusal: `${uml}, and KERNEL=host can't be used, AppArmor forbids it: run \`sudo sysctl x=0\` first, or start Docker or Podman and run \`CLUSTER=kind make up\`.`,
    })
  })

  test('is chosen before its packages are fetched, unless the choice depends on them', async () => {
    const fetchPackages = vi.fn(() => Promise.reject(new Error('no network')))
    try {
      vi.stubEnv('KERNEL', 'nonsense')
      await expect(kernelForNew(fetchPackages, lab(7, [], ['nft']))).rejects.toThrow(
        'KERNEL="nonsense" is not known',
      )
      vi.stubEnv('KERNEL', 'uml')
      await kernelForNew(fetchPackages, lab(7, [], ['nft']))
      expect(fetchPackages).not.toHaveBeenCalled()
    } finally {
      vi.unstubAllEnvs()
    }
  })

  test('with an unavailable or unknown value is reported with the next step', () => {
    const forbidden = {
      hostKernel: { trouble: { detail: 'AppArmor forbids it', fix: 'sudo sysctl x=0' } },
    }
    expect(chooseKernel('host', forbidden)).toEqual({
      refusal:
        "KERNEL=host can't be used here, AppArmor forbids it: run `sudo sysctl x=0` first, or leave KERNEL out.",
    })
    expect(() => chooseKernel('bsd', {})).toThrow(
      'KERNEL="bsd" is not known: use "auto", "uml" or "host".',
    )
  })
})
