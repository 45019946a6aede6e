// The embedded cluster on this machine's own kernel: what it does to the machine (nothing), and mode nftables in the kernel.
import { execFileSync } from 'node:child_process'
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
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { chooseKernel } from '../../cluster/doctor/choose-kernel.ts'
import type { KernelFacts } from '../../cluster/doctor/facts.ts'
import { EmbeddedCluster } from '../../cluster/embedded.ts'
import { kubeClient } from '../../cluster/kube-client.ts'
import { switchMode } from '../../cluster/kube-proxy/switch-mode.ts'
import { readNode } from '../../cluster/snapshot.ts'
import { hostKernelTrouble, readDaemonState } from '../../embedded/index.ts'
import { forbiddingSetting } from '../../embedded/machine/host-kernel-support.ts'
import { waitFor } from '../../host/wait.ts'

const silent = { start() {}, end() {}, note() {} }
const trouble = hostKernelTrouble()
if (trouble)
  console.log(
    `Not tested, as namespaces can't be used here: the cluster on this machine's own kernel (${trouble.detail}).`,
  )

const cluster = new EmbeddedCluster(`host-kernel-${process.pid}`)
const worker = `${cluster.name}-worker`
const inGuest = async (script: string, node = worker) =>
  (await cluster.exec(node, ['sh', '-c', script], { timeoutMs: 60_000 })).stdout

/** A value that changes by itself, or that the kernel gives out again to each reader. */
const MOVES = /count|random|uuid|pid|nr_|-nr|state|stat$|usage|next|last|inode|dentry|aio|ns_|bpf|pty|perf|sched/

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

const print = (command: string, ...words: string[]) => {
  try {
    return execFileSync(command, words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
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
  links: readdirSync('/sys/class/net'),
  routes: print('ip', 'route', 'show', 'table', 'all'),
  mounts: readFileSync('/proc/self/mountinfo', 'utf8'),
  cgroups: existsSync('/sys/fs/cgroup') ? folders('/sys/fs/cgroup').filter((path) => path.includes(cluster.name)) : [],
  hostname: readFileSync('/proc/sys/kernel/hostname', 'utf8'),
  settings: [...settings('/proc/sys/net'), ...settings('/proc/sys/kernel'), ...settings('/proc/sys/vm')],
})

/** Processes of this machine that see the cluster's guest: those in one of its process namespaces. */
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
  process.env.KERNEL = 'host'
  await cluster.up(silent)
})
afterAll(async () => {
  delete process.env.KERNEL
  await cluster.down(silent)
})

describe.skipIf(trouble)('on this machine', { timeout: 120_000 }, () => {
  test('root of a node changes no file, setting, device or mount of it', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'canary-'))
    writeFileSync(join(folder, 'file'), 'of the host\n', { mode: 0o666 })
    mkdirSync(join(folder, 'open'), { mode: 0o777 })
    const said = await inGuest(`exec 2>&1
[ ! -e ${folder} ] || echo "reaches ${folder}"
for file in /usr/canary /etc/canary /var/canary /tmp/canary /root/canary; do echo x >$file; done
for name in $(find /proc/sys/kernel /proc/sys/vm /sys/kernel -maxdepth 2 -type f -writable 2>/dev/null); do
  # These belong to the namespaces of System V IPC and of processes.
  case $name in */msg*|*/sem*|*/shm*|*/auto_msgmni|*/ns_last_pid|*/pid_max) ;; *) echo "may write $name" ;; esac
done
unshare -m sh -c 'mount -o remount,rw /usr; umount -l /usr; [ ! -e /usr/bin ] || echo a lower /usr shows'
mknod /tmp/disk b 254 0 && head -c 1 /tmp/disk >/dev/null 2>&1 && echo 'reads a disk'
mount -t cgroup2 none /mnt && mkdir /mnt/canary && echo 'makes a cgroup'
ls -d /proc/1/root${folder} /proc/1/cwd${folder} 2>/dev/null
iptables -A INPUT -j DROP; hostname canary; ip link add canary type bridge
echo end`)
    expect(said).toMatch(/end\n$/)
    expect(said).not.toMatch(/reaches|may write|lower|reads a disk|makes a cgroup|canary-/)
    expect(['/usr/canary', '/etc/canary', '/var/canary', '/root/canary'].filter((path) => existsSync(path))).toEqual([])
    expect(readFileSync(join(folder, 'file'), 'utf8')).toBe('of the host\n')
    expect(readdirSync(folder).sort()).toEqual(['file', 'open'])
    rmSync(folder, { recursive: true })
    await inGuest('iptables -D INPUT -j DROP')
    expect(machineNow()).toEqual(before)
  })

  test('with kill -9 of its daemon everything is gone, and nothing of the machine has changed', async () => {
    const doomed = new EmbeddedCluster(`${cluster.name}-doomed`)
    await doomed.up(silent)
    const [host, guest] = [
      readlinkSync('/proc/self/ns/net'),
      (await doomed.exec(`${doomed.name}-worker`, ['readlink', '/proc/self/ns/net'])).stdout.trim(),
    ]
    expect(guest).not.toBe(host)
    await doomed.exec(`${doomed.name}-worker`, ['sh', '-c', 'setsid sleep 1000 >/dev/null 2>&1 & sleep 0.1'])
    expect(guestProcesses(guest).length).toBeGreaterThan(1)
    process.kill(readDaemonState(doomed.name)?.pid ?? 0, 'SIGKILL')
    await waitFor('its processes to end', 10_000, async () => guestProcesses(guest).length === 0)
    await doomed.down(silent)
    expect(machineNow()).toEqual(before)
  })
})

describe.skipIf(trouble)('mode nftables in the kernel', { timeout: 120_000 }, () => {
  /** The kernel numbers tables as they are made. */
  const table = async () =>
    /"family": "ip", "name": "kube-proxy", "handle": \d+/.exec(await inGuest('nft -j list tables'))?.[0]
  const matches = () =>
    waitFor('the tables to equal the prediction', 20_000, async () => (await differences()).length === 0)
  const differences = async () => {
    const { evaluate } = await import('../../grading/evaluate.ts')
    const { openCluster } = await import('../../grading/source.ts')
    const { nodes } = await (await openCluster(cluster)).snapshot()
    return nodes.flatMap((node) => evaluate(node, 'nftables').differences).filter(({ where }) => 'nft' in where)
  }

  test('what changes is written into the table that is there, and packets go where the prediction says', async () => {
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
          template: { metadata: { labels }, spec: { containers: [{ name: 'echo', image: 'nginx' }] } },
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
      (await inGuest(`for i in $(seq ${times}); do curl -s -m 3 http://${to}/ || echo "code $?"; done`)).match(
        /Pod: \S+|code \d+/g,
      )
    expect(new Set(await ask(`${plain?.clusterIP}:80`, 40)).size).toBe(3)
    expect(new Set(await ask(`172.18.0.2:${plain?.ports?.[0]?.nodePort}`, 40)).size).toBe(3)
    expect(new Set(await ask(`${empty?.clusterIP}:80`, 2))).toEqual(new Set(['code 7']))
    const [kept] = (await ask(`${sticky?.clusterIP}:80`, 1)) ?? []
    // One more Pod: only what differs is written, so that the table is the same one, and who was remembered still is.
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
    for (const name of ['plain', 'sticky', 'empty']) await core.deleteNamespacedService({ namespace: 'default', name })
    await matches()
    expect(await table()).toBe(first)
    // A new kube-proxy, too, writes into the table that it finds.
    await switchMode(cluster, 'nftables', { progress: silent, force: true })
    await matches()
    expect(await table()).toBe(first)
    await switchMode(cluster, 'iptables', { progress: silent })
    expect(await table()).toBeUndefined()
    expect((await readNode(cluster, worker)).files.get('iptables-save')).toContain('KUBE-SERVICES')
  })
})

describe('what forbids namespaces', () => {
  test.each([
    ['kernel/apparmor_restrict_unprivileged_userns', '1', 'sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0'],
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

describe('KERNEL', () => {
  const all: KernelFacts = {
    ...{ release: '6.12', ipvs: true, schedulers: ['rr'], ipset: true, dummy: true, extensions: ['recent'] },
    ...{ natLegacy: true, natNft: true, nodeBackend: 'legacy', inotifyInstances: 1, inotifyWatches: 1, freeDisk: 1 },
  }
  const lab = (number: number, kernel: 'ipvs'[] = [], kernelOfSteps: 'nft'[] = []) => ({
    number,
    title: '',
    kernel,
    kernelOfSteps,
  })
  const without = { ...all, ipvs: false }
  test.each([
    ['the faster one where it can do all', undefined, { kernel: all }, lab(2, ['ipvs']), 'host'],
    ['User-Mode Linux for IPVS where the other has none', 'auto', { kernel: without }, lab(2, ['ipvs']), 'uml'],
    ['User-Mode Linux where no dummy device can be made', 'auto', { kernel: { ...all, dummy: false } }, lab(1), 'uml'],
    [
      'the one with nftables for a lab with steps in that mode',
      'auto',
      { kernel: without },
      lab(7, [], ['nft']),
      'host',
    ],
    ['User-Mode Linux where nothing is known of the other', undefined, {}, lab(7, [], ['nft']), 'uml'],
    [
      'User-Mode Linux where namespaces are forbidden',
      'auto',
      { trouble: { detail: 'x' } },
      lab(7, [], ['nft']),
      'uml',
    ],
    ['the one that is named', 'uml', { kernel: all }, lab(7, [], ['nft']), 'uml'],
    ['the other one that is named', 'host', { kernel: without }, lab(2, ['ipvs']), 'host'],
  ] as const)('takes %s', (_what, wish, hostKernel, of, kernel) => {
    expect(chooseKernel(wish, { hostKernel }, of)).toMatchObject({ kernel })
  })

  test('that cannot be had, or is no kernel, is reported with what to do', () => {
    const forbidden = { hostKernel: { trouble: { detail: 'AppArmor forbids it', fix: 'sudo sysctl x=0' } } }
    expect(chooseKernel('host', forbidden)).toEqual({
      refusal: "KERNEL=host can't be used here, AppArmor forbids it: run `sudo sysctl x=0` first, or leave KERNEL out.",
    })
    expect(() => chooseKernel('bsd', {})).toThrow('KERNEL="bsd" is not known: use "auto", "uml" or "host".')
  })
})
