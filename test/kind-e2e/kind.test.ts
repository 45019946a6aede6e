// One genuine kind cluster from `make up` to `make down`. Which modes can be tried depends on the
// kernel under the engine.
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { V1PodList } from '@kubernetes/client-node'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { $ } from 'zx'
import { readCaptureFolder } from '../../cluster/capture-folder.ts'
import type { KernelFacts } from '../../cluster/doctor/kernel-probe.ts'
import { kernelProbeCommand, readKernelProbe } from '../../cluster/doctor/kernel-probe.ts'
import { balancerRuns, inAppliance } from '../../cluster/kind/load-balancer/appliance.ts'
import { KindCluster } from '../../cluster/kind.ts'
import { kubeClient } from '../../cluster/kube-client.ts'
import { readConfigConf } from '../../cluster/kube-proxy/kube-proxy-pods.ts'
import { kubectlPath } from '../../cluster/programs.ts'
import type { KubeProxyMode } from '../../dataplane/kube-proxy/config.ts'
import { readMode } from '../../dataplane/kube-proxy/config-conf.ts'
import { evaluate } from '../../grading/evaluate.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { kindFolder, projectRoot } from '../../host/layout.ts'
import { silent } from '../../host/progress.ts'
import { waitFor } from '../../host/wait.ts'
import { EngineRecorder } from './engine-recorder.ts'

const name = 'e2e-kind'
const cluster = new KindCluster(name)
const worker = `${name}-worker`
const folder = mkdtempSync(join(tmpdir(), 'kind-e2e-'))
/** The kubeconfig of the user, which nothing of ours may touch. */
const userConfig = join(folder, 'home', '.kube', 'config')
const environment = {
  ...process.env,
  NAME: name,
  CLUSTER: 'kind',
  HOME: join(folder, 'home'),
  CI: '1',
}

const make = (args: string[], env: Record<string, string> = {}) =>
  $({
    cwd: projectRoot,
    quiet: true,
    nothrow: true,
    env: { ...environment, ...env },
  })`make ${args}`
const done = async (args: string[], env: Record<string, string> = {}) => {
  const { exitCode, stdout, stderr } = await make(args, env)
  expect(exitCode, `make ${args.join(' ')}\n${stdout}\n${stderr}`).toBe(0)
  return stdout
}
/** With RECORD=1, what docker and kind print becomes the recording that test/cluster replays. */
const recorder = process.env.RECORD
  ? new EngineRecorder(join(folder, 'recorder'), projectRoot)
  : undefined
const recorded = async (phase: string, args: string[]) => {
  const output = await make(args, recorder?.environment(phase))
  if (output.exitCode === 0)
    await recorder?.keep(phase, async () =>
      existsSync(cluster.kubeconfig) ? kubectl(['get', 'nodes', '-o', 'json']) : '{"items":[]}',
    )
  return output
}
const script = async (args: string[]) => {
  const run = $({ cwd: projectRoot, quiet: true, nothrow: true, env: environment })
  return run`node --import tsx ${args}`
}
let kubectl: (args: string[]) => Promise<string>
let kernel: KernelFacts

const containerIds = async () =>
  (
    await $({
      quiet: true,
    })`${await cluster.engine()} ps -q --filter label=io.x-k8s.kind.cluster=${name}`
  ).stdout
const modeAsked = async () => readMode((await readConfigConf(await kubeClient(cluster))).text).mode

/**
 * Takes a capture and says where nodes differ from what kube-proxy is expected to program there.
 */
async function captureDiffers(as: string, mode: KubeProxyMode): Promise<string[]> {
  const target = join(folder, as)
  await done(['capture'], { DIR: target })
  const snapshot = new Snapshot(readCaptureFolder(target))
  expect(snapshot.nodes).toHaveLength(3)
  return snapshot.nodes.flatMap((node) =>
    evaluate(node, mode).differences.map((one) => `${node.name}: ${JSON.stringify(one)}`),
  )
}

/** Names of the Pods that answer `count` requests sent from a node. */
async function podsBehind(url: string, count: number): Promise<Set<string>> {
  const loop = `for i in $(seq ${count}); do curl -s -m 5 -o /dev/null -w '%{http_code}\\n' ${url}; done | sort | uniq -c`
  const { stdout } = await cluster.exec(worker, ['sh', '-c', loop], { timeoutMs: 120_000 })
  expect(stdout.trim()).toBe(`${count} 200`)
  const logs = (
    await kubectl(['logs', '-l', 'app=web', '--prefix', '--tail', String(count)])
  ).split('\n')
  return new Set(
    logs.filter((line) => line.includes('GET /')).map((line) => line.split('/')[1] ?? ''),
  )
}

beforeAll(async () => {
  const path = await kubectlPath(silent)
  const run = $({ quiet: true, env: { ...environment, KUBECONFIG: cluster.kubeconfig } })
  kubectl = async (args) => (await run`${path} ${args}`).stdout
  const { exitCode, stdout: printed, stderr } = await recorded('create', ['up'])
  expect(exitCode, `${printed}\n${stderr}`).toBe(0)
  const { stdout } = await cluster.exec(worker, kernelProbeCommand, { timeoutMs: 60_000 })
  const facts = readKernelProbe(stdout)
  if (!facts) throw new Error(`The kernel's probe did not end: ${stdout}`)
  kernel = facts
})
afterAll(async () => {
  await make(['down'])
  recorder?.write(join(projectRoot, 'test/cluster/genuine-run.json'))
  rmSync(folder, { recursive: true, force: true })
})

describe('make up', () => {
  test('makes three nodes of a genuine cluster, and leaves the kubeconfig of the user alone', async () => {
    expect(await cluster.nodes()).toEqual([`${name}-control-plane`, worker, `${name}-worker2`])
    expect(await done(['status'])).toMatch(/worker2 +Ready +v1\.\d+\.\d+\S* +kube-proxy: iptables/)
    expect(existsSync(userConfig)).toBe(false)
    expect(await done(['-s', 'env'])).toContain(cluster.kubeconfig)
  })

  test('a second time changes nothing', async () => {
    const before = await containerIds()
    expect((await recorded('again', ['up'])).stderr).toContain('is up')
    expect(await containerIds()).toBe(before)
  })

  test('starts a node that was stopped, and waits until it is Ready again', async () => {
    const before = await containerIds()
    await $({ quiet: true })`${await cluster.engine()} stop --time 5 ${worker}`
    expect((await make(['status'])).stdout).toContain('is not up')
    expect((await recorded('stopped', ['up'])).exitCode).toBe(0)
    expect((await containerIds()).split('\n').sort()).toEqual(before.split('\n').sort())
    expect(await done(['status'])).toContain(`${worker} `)
  })

  test('lets a node go on that was paused, and deletes nothing', async () => {
    const before = await containerIds()
    await $({ quiet: true })`${await cluster.engine()} pause ${worker}`
    expect((await make(['status'])).stdout).toContain('is not up')
    expect((await recorded('paused', ['up'])).exitCode).toBe(0)
    expect(await containerIds()).toBe(before)
    expect((await done(['status'])).match(/ Ready /g)).toHaveLength(3)
  })
})

describe('a node that is killed in the middle of a check', () => {
  test('is trouble of the machine, and no step has failed', async () => {
    await done(['web'])
    const checking = make(['check-2'])
    await new Promise(
      (resolve) =>
        checking.stdout.once('data', resolve).once('end', resolve) && setTimeout(resolve, 2000),
    )
    await $({ quiet: true })`${await cluster.engine()} kill ${worker}`
    const { exitCode, stdout } = await checking
    expect(exitCode, stdout).toBe(2)
    expect(stdout).not.toMatch(/^ *✗/m)
    await done(['up'])
    expect((await done(['status'])).match(/ Ready /g)).toHaveLength(3)
  })
})

describe('make doctor', () => {
  test('asks the kernel under the engine, and reports where lab 2 can run', async () => {
    const output = await done(['doctor'])
    expect(output).toMatch(/✓ kind +engine +\S+ \S+ on /)
    expect(output).toMatch(
      kernel.ipvs ? /✓ +IPVS +schedulers rr/ : /! +IPVS +this kernel has no ip_vs/,
    )
    expect(output).toMatch(kernel.ipvs ? /✓ lab 2 +kind/ : /✗ lab 2 +kind +its kernel has no IPVS/)
  })
})

describe('iptables mode', () => {
  test('make web: both Pods answer through the ClusterIP', async () => {
    await done(['web'])
    const address = (
      await kubectl(['get', 'service', 'web', '-o', 'jsonpath={.spec.clusterIP}'])
    ).trim()
    expect((await podsBehind(`http://${address}/`, 20)).size).toBe(2)
  })

  test('make tools: brings ipset and ipvsadm, reports what iptables is read through, and the second time that they are there', async () => {
    expect(
      (await done(['tools'])).match(/kube-proxy's rules are read through iptables-(legacy|nft)/g),
    ).toHaveLength(3)
    expect(
      (await done(['tools'])).match(/already installed \(\/\S*ipset, \/\S*ipvsadm\)/g),
    ).toHaveLength(3)
  })

  test('a capture equals the prediction, on every node', async () => {
    await done(['iptables'])
    expect(await captureDiffers('iptables', 'iptables')).toEqual([])
  })

  test('the checks of lab 2 that apply pass on the capture, and none breaks', async () => {
    const judged = (step: string) =>
      script([
        'scripts/check.ts',
        '--lab',
        '2',
        '--capture',
        join(folder, 'iptables'),
        '--step',
        step,
      ])
    expect((await judged('web')).exitCode).toBe(0)
    const all = await script([
      'scripts/check.ts',
      '--lab',
      '2',
      '--capture',
      join(folder, 'iptables'),
      '--json',
    ])
    const { steps } = JSON.parse(all.stdout) as {
      steps: { id: string; verdict: string; reason?: string }[]
    }
    expect(steps.filter(({ reason }) => reason?.includes('the check itself failed'))).toEqual([])
  })

  test('exec, aliases, logs and trace work on a node', async () => {
    expect(
      await done(['-s', 'exec'], { CMD: 'iptables -t nat -S KUBE-SERVICES', NODE: worker }),
    ).toContain('-A KUBE-SERVICES')
    expect(await done(['-s', 'aliases'])).toContain('ipt()')
    expect(await done(['kube-proxy-logs'])).toMatch(/Using "?iptables"? Proxier/i)
    const traced = await done(['trace'], { FROM: 'host', TO: 'svc/web:80', NODE: worker })
    expect(traced).toMatch(/KUBE-SVC-|KUBE-SEP-/)
    expect(await done(['flush-nat'])).toMatch(/runs iptables; there are no leftovers of ipvs/)
  })
})

describe('nftables mode', () => {
  test('is proved on every node, and its tables hold what is predicted; or what kube-proxy or the kernel lacks is said', async () => {
    const { exitCode, stdout, stderr } = await make(['nftables'])
    // nodeInfo.kubeProxyVersion is empty from 1.33 on; kind installs both in one version.
    const version = await kubectl([
      'get',
      'nodes',
      '-o',
      'jsonpath={.items[0].status.nodeInfo.kubeletVersion}',
    ])
    const [, minor = ''] = /^v1\.(\d+)\./.exec(version) ?? []
    if (Number(minor) < 31) {
      expect(`${exitCode} ${stderr}`).toMatch(
        /^2 [\s\S]*nothing was changed: kube-proxy v\S+ does not have it, or only behind a feature gate/,
      )
      expect(await modeAsked()).toBe('iptables')
      return
    }
    if (!kernel.natNft) {
      expect(`${exitCode} ${stderr}`).toMatch(
        /^[1-9]\d* [\s\S]*nothing was changed: the kernel of .* has no /,
      )
      expect(await modeAsked()).toBe('iptables')
      return
    }
    expect(exitCode, stderr).toBe(0)
    expect(stdout.match(/\/proxyMode is "nftables"/g)).toHaveLength(3)
    const address = (
      await kubectl(['get', 'service', 'web', '-o', 'jsonpath={.spec.clusterIP}'])
    ).trim()
    expect((await podsBehind(`http://${address}/`, 20)).size).toBe(2)
    const differences = await captureDiffers('nftables', 'nftables')
    expect(differences.filter((one) => one.includes('"nft":'))).toEqual([])
    expect(await done(['flush-nat'])).toMatch(/runs nftables/)
  })

  test('and back: no table is left, and the rules of iptables mode are all there', async () => {
    await done(['iptables'])
    await done(['flush-nat'])
    expect(await captureDiffers('iptables-again', 'iptables')).toEqual([])
  })
})

describe('a Service of type LoadBalancer', () => {
  const outside = async (command: string) =>
    (await inAppliance(await cluster.engine(), name, command)).stdout

  test('gets an address of the network, and answers there without anything being downloaded', async () => {
    await kubectl([
      'expose',
      'deployment',
      'web',
      '--name',
      'web-lb',
      '--type',
      'LoadBalancer',
      '--port',
      '80',
    ])
    const address = await waitFor('an address', 60_000, async () =>
      (
        await kubectl([
          'get',
          'service',
          'web-lb',
          '-o',
          'jsonpath={.status.loadBalancer.ingress[0].ip}',
        ])
      ).trim(),
    )
    expect(address).toMatch(/^\d+\.\d+\.\d+\.\d+$/)
    await waitFor('an answer', 60_000, async () =>
      (await outside(`curl -s -m 3 -o /dev/null -w '%{http_code}' http://${address}/`)).includes(
        '200',
      ),
    )
    await waitFor(
      'every kube-proxy',
      60_000,
      async () => (await captureDiffers(`load-balancer-${Date.now()}`, 'iptables')).length === 0,
    )
  })

  test('with externalTrafficPolicy Local only nodes with a Pod take traffic, and the Pod sees the client', async () => {
    await kubectl(['scale', 'deployment', 'web', '--replicas', '1'])
    await kubectl(['rollout', 'status', 'deployment', 'web'])
    await kubectl([
      'patch',
      'service',
      'web-lb',
      '-p',
      '{"spec":{"externalTrafficPolicy":"Local"}}',
    ])
    const at = async (path: string) =>
      (await kubectl(['get', 'service', 'web-lb', '-o', `jsonpath=${path}`])).trim()
    const address = await at('{.status.loadBalancer.ingress[0].ip}')
    const [client = ''] = (await outside('hostname -I')).trim().split(' ')
    const { items } = JSON.parse(
      await kubectl(['get', 'pods', '-l', 'app=web', '-o', 'json']),
    ) as V1PodList
    // The other one may take half a minute to end.
    const pod = items.find(({ metadata }) => !metadata?.deletionTimestamp)
    const host = pod?.status?.hostIP
    await waitFor('one node to be left', 60_000, async () => {
      const route = await outside(`ip -o route show table 100 ${address}`)
      return [...route.matchAll(/via (\S+)/g)].map((match) => match[1]).join() === host
    })
    const answers = await outside(
      `for i in $(seq 10); do curl -s -m 3 -o /dev/null -w '%{http_code} ' http://${address}/; done`,
    )
    expect(answers.trim()).toBe(Array(10).fill('200').join(' '))
    expect(await kubectl(['logs', pod?.metadata?.name ?? '', '--tail', '20'])).toContain(client)
    expect(await captureDiffers('local-policy', 'iptables')).toEqual([])
  })

  test('gives its address back when it is deleted', async () => {
    await kubectl(['delete', 'service', 'web-lb'])
    await waitFor(
      'the route to be gone',
      60_000,
      async () => !(await outside('ip route show table 100')).trim(),
    )
    await kubectl(['scale', 'deployment', 'web', '--replicas', '2'])
    await kubectl(['rollout', 'status', 'deployment', 'web'])
  })
})

describe('the same cluster as a context of a kubeconfig', () => {
  const context = { CLUSTER: `context:kind-${name}`, KUBECONFIG: cluster.kubeconfig }
  const agreed = { ...context, YES: '1' }

  test('is read, captured and changed through its API alone', async () => {
    expect((await make(['up'], context)).stderr).toMatch(
      /This would run a privileged Pod on each of 3 nodes.*YES=1/,
    )
    await done(['up'], agreed)
    expect(await done(['status'], context)).toMatch(/worker2 +Ready .* kube-proxy: iptables/)
    const target = join(folder, 'context')
    await done(['capture'], { ...context, DIR: target })
    const snapshot = new Snapshot(readCaptureFolder(target))
    for (const node of snapshot.nodes) expect(evaluate(node, 'iptables').differences).toEqual([])
    await done(['tools'], agreed)
    expect((await make(['iptables'], { ...context, FORCE: '1' })).stderr).toContain(
      'nothing was changed',
    )
    await done(['iptables'], { ...agreed, FORCE: '1' })
    await done(['flush-nat'], context)
  })

  test('keeps what does not belong to these labs, also where it has a label of theirs, and loses the rest with `make down`', async () => {
    await kubectl(['create', 'service', 'clusterip', 'theirs', '--tcp=80'])
    await kubectl(['label', 'service', 'theirs', 'app=web', '--overwrite'])
    expect((await make(['reset-1'], context)).stderr).toMatch(
      /This would reset lab 1.*nothing was changed/,
    )
    await done(['reset-1'], agreed)
    expect(await kubectl(['get', 'services', '-l', 'app=web', '-o', 'name'])).toContain(
      'service/theirs',
    )
    expect((await make(['down'], context)).stderr).toContain('nothing was changed')
    expect(await done(['down'], agreed)).toMatch(/All objects of these labs were removed/)
    expect(await kubectl(['get', 'namespaces'])).not.toContain('kube-service-labs')
    expect(await kubectl(['get', 'services', '-o', 'name'])).toContain('service/theirs')
    await kubectl(['delete', 'service', 'theirs'])
  })
})

describe('IPVS mode', () => {
  test('lab 2 passes where the kernel has ip_vs; elsewhere it ends with one sentence, and no step has failed', async () => {
    const { exitCode, stdout, stderr } = await make(['lab-2'])
    if (kernel.ipvs) {
      expect(exitCode, stdout + stderr).toBe(0)
      return
    }
    expect(exitCode).toBe(2)
    expect(
      stderr.match(/^ ✗ Lab 2 can't run here, and nothing was started: .*$/gm),
      stderr,
    ).toHaveLength(1)
    expect(stdout).not.toMatch(/failed|✗/)
    expect(await modeAsked()).toBe('iptables')
  })

  test('what a forced switch comes to is reported, and `make iptables` puts all right again', async () => {
    const forced = await make(['ipvs'], { FORCE: '1' })
    expect(forced.exitCode).toBe(kernel.ipvs ? 0 : 2)
    if (!kernel.ipvs)
      expect(forced.stderr).toMatch(
        /Continuing, because FORCE=1.*(continued in mode "iptables"|crashes repeatedly)/s,
      )
    expect(await modeAsked()).toBe('ipvs')
    await done(['iptables'])
    await done(['flush-nat'])
    expect(await captureDiffers('after-force', 'iptables')).toEqual([])
  })
})

describe('make down', () => {
  test('leaves no container, no process and no file', async () => {
    await recorded('delete', ['down'])
    expect(await cluster.exists()).toBe(false)
    expect(balancerRuns(name)).toBe(false)
    expect(existsSync(kindFolder(name))).toBe(false)
    const { stdout } = await $({
      quiet: true,
    })`${await cluster.engine()} ps -a --format ${'{{.Names}}'}`
    expect(stdout).not.toContain(name)
    expect(existsSync(userConfig)).toBe(false)
  })
})
