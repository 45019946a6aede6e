import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { $ } from 'zx'
import { kernelProbeCommand, readKernelProbe } from '../../cluster/doctor/kernel-probe.ts'
import { EmbeddedCluster } from '../../cluster/embedded.ts'
import { kubeClient } from '../../cluster/kube-client.ts'
import { switchMode } from '../../cluster/kube-proxy/switch-mode.ts'
import { kubectlPath } from '../../cluster/programs.ts'
import { readNode, takeCapture } from '../../cluster/snapshot.ts'
import { readDaemonState } from '../../embedded/index.ts'
import { evaluate } from '../../grading/evaluate.ts'
import { notesName, writeNotes } from '../../grading/lab-notes.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { clusterFolder, projectRoot } from '../../host/layout.ts'
import { processStartTime } from '../../host/live-process.ts'
import { OUTSIDE } from '../../host/outside.ts'
import { silent } from '../../host/progress.ts'
import { timeoutScale, waitFor } from '../../host/wait.ts'
import { rulesLeft } from './lab-rules.ts'
import { countWithNfacct } from './nfacct-rules.ts'
import { runOn } from './quick-kernel.ts'

// A name of this run's own: a cluster that a user works with is left alone.
const cluster = new EmbeddedCluster(`test-${process.pid}`)
const worker = `${cluster.name}-worker`
const make = $({
  cwd: projectRoot,
  quiet: true,
  nothrow: true,
  env: { ...process.env, NAME: cluster.name, CLUSTER: 'embedded' },
})
let kubectlProgram: string
let kubectl: (args: string[]) => Promise<string>

const onNode = async (command: string, node = worker) => {
  const { exitCode, stdout, stderr } = await cluster.exec(node, ['sh', '-c', command], {
    timeoutMs: 60_000 * timeoutScale(),
  })
  if (exitCode !== 0) throw new Error(`"${command}" on ${node}: ${stderr}`)
  return stdout
}

runOn('uml')
beforeAll(async () => {
  await cluster.up(silent)
  kubectlProgram = await kubectlPath(silent)
  const run = $({ quiet: true, env: { ...process.env, KUBECONFIG: cluster.kubeconfig } })
  kubectl = async (args) => (await run`${kubectlProgram} ${args}`).stdout
})

afterAll(() => cluster.down(silent))

/**
 * The mappings of the kernel's own process, as /proc/PID/smaps describes each of them; the
 * processes of the guest are traced by it.
 */
function kernelMappings(): string[] {
  const read = (pid: string, file: string) => {
    try {
      return readFileSync(`/proc/${pid}/${file}`, 'utf8')
    } catch {
      // It has ended.
      return ''
    }
  }
  const own = readdirSync('/proc').filter(
    (pid) =>
      read(pid, 'cmdline').split('\0').includes(`umid=${cluster.name}`) &&
      /^TracerPid:\t0$/m.test(read(pid, 'status')),
  )
  const listed = own.map((pid) => read(pid, 'smaps').split(/\n(?=[0-9a-f]+-[0-9a-f]+ )/))
  return listed.sort((one, other) => other.length - one.length)[0] ?? []
}

/**
 * Shell: sends requests, each on a connection of its own, by one program, because starting one
 * takes longer than a request.
 */
const requests = (address: string, count: number, ...options: string[]) =>
  `curl -s -m 5 -H 'Connection: close' ${options.join(' ')} 'http://${address}/?[1-${count}]'`

/** The Pods that answered, as nginx's page names them. */
const podsIn = (pages: string) => Array.from(pages.matchAll(/^Pod: (\S+)$/gm), ([, pod]) => pod)

describe('a cluster that is up', () => {
  test('has three Ready nodes, each with its own kernel state', async () => {
    const nodes = (await kubectl(['get', 'nodes', '--no-headers'])).trim().split('\n')
    expect(nodes).toHaveLength(3)
    for (const node of nodes) expect(node).toMatch(/\sReady\s/)
    const addresses = await Promise.all(
      (await cluster.nodes()).map((node) => onNode('hostname; hostname -I', node)),
    )
    expect(new Set(addresses).size).toBe(3)
  })

  test('has a kernel whose mapped pages are copied into no process of the guest', () => {
    const mappings = kernelMappings()
    const pages = mappings.filter((one) => /^\S+ \S{3}s .*\nSize: +4 kB$/m.test(one))
    expect(pages.length).toBeGreaterThan(100)
    expect(pages.filter((one) => !/^VmFlags:.* dc\b/m.test(one))).toEqual([])
  })

  test('is unchanged by a second `make up`', async () => {
    const before = readDaemonState(cluster.name)
    const { exitCode, stdout } = await make`make up`
    expect(exitCode, stdout).toBe(0)
    expect(readDaemonState(cluster.name)).toEqual(before)
  })

  test('runs commands on nodes: exit code, both outputs, input, a time limit, and a refusal in one sentence', async () => {
    const input = `${'x'.repeat(1_000_000)}\nend`
    expect(
      await cluster.exec(worker, ['sh', '-c', 'wc -c; echo err >&2; exit 7'], { stdin: input }),
    ).toEqual({
      exitCode: 7,
      stdout: '1000004\n',
      stderr: 'err\n',
    })
    const late = cluster.exec(worker, ['sleep', '30'], { timeoutMs: 500 })
    await expect(late).rejects.toThrow(`"sleep 30" on ${worker} did not end within 0.5 s`)
    await expect(cluster.script(worker, 'sleep 30', 500)).rejects.toThrow(
      /did not end within 0.5 s/,
    )
    await expect(cluster.exec('nowhere', ['true'])).rejects.toThrow(
      /refused to run a command on "nowhere" .*404/,
    )
    await expect(cluster.script('nowhere', 'true', 5000)).rejects.toThrow(
      /on "nowhere" \(HTTP 404\)/,
    )
    expect(await cluster.exec(worker, ['no-such-program'])).toMatchObject({ exitCode: 127 })
  })

  test.each([worker, OUTSIDE])(
    'a login shell on %s reads no profile that it may not',
    async (place) => {
      expect(await cluster.exec(place, ['bash', '-lc', 'cd && pwd'])).toMatchObject({
        exitCode: 0,
        stderr: '',
      })
    },
  )

  test.each([
    ['make shell', () => 'node scripts/start.mjs scripts/exec.ts --shell', worker],
    [
      'kubectl run -it',
      () => `${kubectlProgram} run -it --rm shell --image=busybox --restart=Never -- sh`,
      'shell',
    ],
  ])('has a terminal with its size: %s', async (_what, command, host) => {
    const line = `stty cols 101 rows 33; exec ${command()}`
    const shell = spawn(
      'script',
      ['--quiet', '--flush', '--return', '--command', line, '/dev/null'],
      {
        cwd: projectRoot,
        env: {
          ...process.env,
          NAME: cluster.name,
          CLUSTER: 'embedded',
          NODE: worker,
          KUBECONFIG: cluster.kubeconfig,
        },
      },
    )
    let text = ''
    shell.stdout.on('data', (bytes: Buffer) => {
      text += bytes
    })
    await expect.poll(() => text).toContain('# ')
    shell.stdin.write('hostname; until stty size | grep -x "33 101"; do :; done; exit 5\n')
    const [code] = await once(shell, 'exit')
    expect(text).toMatch(new RegExp(`${host}\\r*\\n`))
    expect(code).toBe(5)
  })

  test('does not let nodes write to the host', async () => {
    const target = '/etc/hostname'
    const before = readFileSync(target, 'utf8')
    const probe = join(tmpdir(), `from-inside-${process.pid}`)
    await onNode(`echo changed >${target}; echo new >${probe}; rm -rf ${projectRoot}/README.md`)
    expect(
      await onNode(`cat ${target} ${probe}; test ! -e ${projectRoot}/README.md && echo gone`),
    ).toContain('gone')
    expect(readFileSync(target, 'utf8')).toBe(before)
    expect(existsSync(probe)).toBe(false)
    expect(existsSync(join(projectRoot, 'README.md'))).toBe(true)
  })

  test('reports when every kube-proxy has programmed the objects of the API', async () => {
    for (const address of ['10.96.77.1', '10.96.77.2']) {
      await kubectl([
        'create',
        'service',
        'clusterip',
        'followed',
        '--tcp=80',
        `--clusterip=${address}`,
      ])
      expect(await cluster.synced(20_000)).toEqual([])
      const rules = await Promise.all(
        (await cluster.nodes()).map((node) => cluster.exec(node, ['iptables-save'])),
      )
      expect(rules.map(({ stdout }) => stdout.includes(`${address}/32`))).toEqual([
        true,
        true,
        true,
      ])
      await kubectl(['delete', 'service', 'followed'])
    }
    // Without any time for an answer, none of them is known to have.
    expect(await cluster.synced(0)).toEqual(await cluster.nodes())
  })

  test('is graded healthy if its kube-proxies count packets with nfacct, and a missing counter is found', async () => {
    const inSystem = ['-n', 'kube-system']
    await kubectl([
      ...inSystem,
      'expose',
      'deployment',
      'coredns',
      '--name=counted',
      '--type=NodePort',
      '--port=53',
    ])
    await cluster.synced(20_000)
    const nodes = await cluster.nodes()
    const plain = new Map(
      await Promise.all(
        nodes.map(async (node) => [node, await onNode('iptables-save', node)] as const),
      ),
    )
    const client = await kubeClient(cluster)
    const differences = async () =>
      new Snapshot(await takeCapture(cluster, client)).nodes.map((node) =>
        evaluate(node, 'iptables').differences.map(({ text }) => text),
      )
    for (const node of nodes) await onNode(countWithNfacct, node)
    const counted = await onNode('iptables-save')
    const counters = Array.from(counted.matchAll(/--nfacct-name {2}(\S+)/g), ([, name]) => name)
    expect(new Set(counters)).toEqual(
      new Set(['ct_state_invalid_dropped_pkts', 'localhost_nps_accepted_pkts']),
    )
    expect(await differences()).toEqual([[], [], []])
    await onNode('iptables -D KUBE-FORWARD 1')
    expect((await differences()).flat()).toEqual([
      expect.stringContaining('--nfacct-name  ct_state_invalid_dropped_pkts'),
    ])
    for (const [node, rules] of plain)
      await cluster.exec(node, ['iptables-restore'], { stdin: rules })
    await kubectl([...inSystem, 'delete', 'service', 'counted'])
  })

  test('hands in the lab that was begun, before any of its steps has passed', async () => {
    const DIR = mkdtempSync(join(tmpdir(), 'begun-'))
    const client = await kubeClient(cluster)
    await writeNotes(client, 3, { 'hints.web': '1' })
    const submit = make({ env: { ...process.env, NAME: cluster.name, LEARNER: 'al', DIR } })
    const { exitCode, stdout, stderr } = await submit`make submit CLUSTER=embedded`
    await client.core.deleteNamespacedConfigMap({ namespace: 'default', name: notesName(3) })
    const written = readdirSync(DIR)
    rmSync(DIR, { recursive: true })
    expect(exitCode, stderr + stdout).toBe(0)
    expect(written).toEqual(['al-lab3.labgrade'])
  })

  test('requests the mode of kube-proxy from the node itself, and reports none without an answer', async () => {
    const reported = async () => (await readNode(cluster, worker)).files.get('proxyMode')
    await expect.poll(reported).toBe('iptables')
    const rule = 'OUTPUT -o lo -p tcp --dport 10249 -j REJECT --reject-with tcp-reset'
    await onNode(`iptables -I ${rule}`)
    expect(await reported()).toBeUndefined()
    await onNode(`iptables -D ${rule}`)
    const other = 'OUTPUT -o lo -p tcp --dport 10249 -j REDIRECT --to-ports 10256'
    await onNode(`iptables -t nat -I ${other}`)
    expect(await reported(), 'another server, which has no /proxyMode').toBeUndefined()
    await onNode(`iptables -t nat -D ${other}`)
    expect(await reported()).toBe('iptables')
  })

  test('loses the rules of labs in both families when a lab is reset, and no other rule', async () => {
    expect(await rulesLeft(cluster, worker, 'legacy')).toEqual([
      expect.stringContaining('--comment lab-50'),
    ])
  })

  test('serves web from two workers, through the ClusterIP, in both modes and while it is flushed', async () => {
    const web = await make`make web`
    expect(web.exitCode, web.stderr).toBe(0)
    const address = (
      await kubectl(['get', 'service', 'web', '-o', 'jsonpath={.spec.clusterIP}'])
    ).trim()
    const before = podsIn(await onNode(requests(address, 12)))
    expect(before).toHaveLength(12)
    expect(new Set(before).size).toBe(2)

    const toIpvs = await make`make ipvs`
    expect(toIpvs.exitCode, toIpvs.stderr).toBe(0)
    // They last while the old chains are removed.
    const four = requests(address, 4, '-o /dev/null', `-w '%{http_code}\\n'`)
    const load = onNode(`for i in $(seq 30); do ${four}; sleep 0.1; done`)
    const flush = await make`make flush-nat`
    expect(flush.exitCode, flush.stderr).toBe(0)
    expect(flush.stdout).toMatch(/nat: \d+ chains/)
    expect(await load).toBe('200\n'.repeat(120))
    expect(await onNode('iptables-save -t nat')).not.toMatch(/KUBE-(SVC|SEP)-/)

    const answers = podsIn(await onNode(requests(address, 8)))
    const counts = [...new Set(answers)].map((pod) => answers.filter((one) => one === pod).length)
    expect(counts).toEqual([4, 4])

    const back = await make`make iptables flush-nat`
    expect(back.exitCode, back.stderr).toBe(0)
    expect(podsIn(await onNode(requests(address, 1)))).toHaveLength(1)
    expect(await onNode('ipvsadm -Sn; ipset list -n; ip -br link show type dummy')).toBe('')
  })

  test('refuses mode nftables before anything is changed, and names the missing module and the kernel that has it', async () => {
    const { exitCode, stderr } = await make`make nftables`
    expect(exitCode).toBe(2)
    expect(stderr).toMatch(
      /nothing was changed: .*NAT in nf_tables \(module nft_chain_nat\)\..*KERNEL=host/,
    )
    expect(
      await kubectl(['-n', 'kube-system', 'get', 'configmap', 'kube-proxy', '-o', 'yaml']),
    ).toMatch(/mode: iptables$/m)
  })
})

describe('the kernel', () => {
  const modeAsked = async () =>
    /mode: (\w+)$/m.exec(
      await kubectl(['-n', 'kube-system', 'get', 'configmap', 'kube-proxy', '-o', 'yaml']),
    )?.[1]

  test('is tested by use, as doctor does, and the test leaves nothing', async () => {
    const rules = async () =>
      (await cluster.exec(worker, ['sh', '-c', 'iptables-save; ipvsadm -Sn; ip link'])).stdout
    const before = (await rules()).split('\n').length
    const { stdout } = await cluster.exec(worker, kernelProbeCommand, {
      timeoutMs: 60_000 * timeoutScale(),
    })
    expect(readKernelProbe(stdout)).toMatchObject({
      ipvs: true,
      schedulers: expect.arrayContaining(['rr', 'wrr', 'lc', 'sh', 'mh']),
      ipset: true,
      dummy: true,
      extensions: expect.arrayContaining([
        'comment',
        'conntrack',
        'addrtype',
        'mark',
        'MARK',
        'statistic',
        'recent',
        'MASQUERADE',
      ]),
      natLegacy: true,
      natNft: false,
    })
    expect((await rules()).split('\n')).toHaveLength(before)
  })

  test('without ip_vs: refused, then with FORCE=1 the crash loop is reported, and `make iptables` recovers', async () => {
    const forbid = `echo 'install ip_vs /bin/false' >/etc/modprobe.d/no-ipvs.conf
      for one in rr wrr lc wlc lblc lblcr sh dh sed nq fo ovf mh; do rmmod ip_vs_$one; done 2>/dev/null
      rmmod xt_ipvs ip_vs; [ ! -e /proc/net/ip_vs ]`
    for (const node of await cluster.nodes())
      await cluster.exec(node, [
        'sh',
        '-c',
        'echo "install ip_vs /bin/false" >/etc/modprobe.d/no-ipvs.conf',
      ])
    expect((await cluster.exec(worker, ['sh', '-c', forbid])).exitCode).toBe(0)

    const ask = (mode: 'ipvs' | 'iptables', force: boolean) =>
      switchMode(cluster, mode, { force, progress: silent })
    await expect(ask('ipvs', false)).rejects.toThrow(
      /has no IPVS \(module ip_vs\)\. `make doctor` shows how to fix it\. FORCE=1/,
    )
    expect(await modeAsked()).toBe('iptables')
    await expect(ask('ipvs', true)).rejects.toThrow(
      /crashes repeatedly .*can't use the IPVS proxier.*`make iptables` repairs all/,
    )
    expect(await modeAsked()).toBe('ipvs')
    const { proofs } = await ask('iptables', false)
    expect(proofs.map(({ proxyMode }) => proxyMode)).toEqual(['iptables', 'iptables', 'iptables'])
  })
})

/** Host processes that belong to a cluster, by the paths in their command lines. */
function processesOf(name: string): number[] {
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry))
    .map(Number)
    .filter((pid) => {
      if (processStartTime(pid) === undefined) return false
      try {
        const line = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
        return line.includes(`${clusterFolder(name)}/`) || line.includes(`"name":"${name}"`)
      } catch {
        return false
      }
    })
}

describe('another cluster beside it', () => {
  const other = new EmbeddedCluster(`${cluster.name}-b`)
  afterAll(() => other.down(silent))

  test('that is ended by Ctrl-C while it boots leaves nothing, and the next `make up` works', async () => {
    const up = spawn(process.execPath, ['scripts/start.mjs', 'scripts/up.ts'], {
      cwd: projectRoot,
      env: { ...process.env, NAME: other.name, CLUSTER: 'embedded' },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    await new Promise<void>((resolve) =>
      up.stderr.on('data', (bytes: Buffer) => {
        if (bytes.toString().includes('Booting')) resolve()
      }),
    )
    const ended = new Promise((resolve) => up.on('exit', resolve))
    up.kill('SIGINT')
    await ended
    await waitFor('its processes to end', 10_000, async () => processesOf(other.name).length === 0)
    await other.up(silent)
    expect(await other.nodes()).toHaveLength(3)
  })

  test('has nodes of its own, and its end leaves no process or file of it, and the first one as it is', async () => {
    expect(await other.nodes()).not.toEqual(await cluster.nodes())
    for (const one of [cluster, other])
      expect((await one.exec(`${one.name}-worker`, ['true'])).exitCode).toBe(0)
    await other.down(silent)
    await waitFor('its processes to end', 10_000, async () => processesOf(other.name).length === 0)
    expect(existsSync(clusterFolder(other.name))).toBe(false)
    expect(await onNode('echo still here')).toContain('still here')
  })
})
