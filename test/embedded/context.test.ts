// One booted cluster, reached as a context of a user's kubeconfig.

import { readFileSync, rmSync, statSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { $ } from 'zx'
import { contextFolder } from '../../cluster/context/own-objects.ts'
import { ContextCluster } from '../../cluster/context.ts'
import { kernelLackOf } from '../../cluster/doctor/gather.ts'
import { EmbeddedCluster } from '../../cluster/embedded.ts'
import { kubeClient } from '../../cluster/kube-client.ts'
import { readConfigConf } from '../../cluster/kube-proxy/kube-proxy-pods.ts'
import { switchMode } from '../../cluster/kube-proxy/switch-mode.ts'
import { takeCapture } from '../../cluster/snapshot.ts'
import { readMode } from '../../dataplane/kube-proxy/config-conf.ts'
import { mustRunHere, readLab } from '../../grading/lab-definition.ts'
import { filesOf, type NodeView, Snapshot } from '../../grading/snapshot.ts'
import { projectRoot } from '../../host/layout.ts'
import { silent } from '../../host/progress.ts'
import { quickKernel, runOn } from './quick-kernel.ts'

const cluster = new EmbeddedCluster(`ways-${process.pid}`)
/** The context of the kubeconfig, with a name that a user may choose. */
const contextName = cluster.name
const worker = `${cluster.name}-worker`

const open = async () => {
  vi.stubEnv('KUBECONFIG', cluster.kubeconfig)
  const context = await ContextCluster.open(contextName)
  vi.stubEnv('KUBECONFIG', undefined)
  return context
}
const namespaces = async () =>
  (await (await kubeClient(cluster)).core.listNamespace()).items.map(
    ({ metadata }) => metadata?.name,
  )
const modeAsked = async () => readMode((await readConfigConf(await kubeClient(cluster))).text).mode

/** Rules as they are, without the counters that every packet moves. */
const rulesOf = (node: NodeView | undefined) =>
  node &&
  filesOf(node)
    .get('iptables-save')
    ?.replace(/\[\d+:\d+\]/g, '')
    .replace(/^#.*$/gm, '')

runOn(quickKernel)
beforeAll(async () => {
  await cluster.up(silent)
})
afterAll(async () => {
  await cluster.down(silent)
  rmSync(contextFolder(contextName), { recursive: true, force: true })
  vi.unstubAllEnvs()
})

describe('a context of a kubeconfig', () => {
  test('that does not exist is refused with the names of the existing ones', async () => {
    vi.stubEnv('KUBECONFIG', cluster.kubeconfig)
    await expect(ContextCluster.open('elsewhere')).rejects.toThrow(
      `CLUSTER="context:elsewhere" names no context of your kubeconfig: there are "${contextName}".`,
    )
    vi.unstubAllEnvs()
  })

  test('is not changed without consent: the change is described, and made with YES=1', async () => {
    const context = await open()
    await expect(context.up(silent)).rejects.toThrow(
      /^This would run a privileged Pod on each of 3 nodes.*nothing was changed.*YES=1\.$/,
    )
    expect(await namespaces()).not.toContain('kube-service-labs')
    expect(await context.running()).toBe(false)
    vi.stubEnv('YES', '1')
    await context.up(silent)
    vi.stubEnv('YES', undefined)
    expect(await namespaces()).toContain('kube-service-labs')
    expect(await context.running()).toBe(true)
    await context.up(silent)
  })

  test('an unavailable image is reported, and another one replaces it immediately', async () => {
    vi.stubEnv('YES', '1')
    await (await open()).down(silent)
    vi.stubEnv('AGENT_IMAGE', 'not/here:1')
    await expect((await open()).up(silent)).rejects.toThrow(/ErrImagePull|ImagePullBackOff/)
    vi.stubEnv('AGENT_IMAGE', 'busybox:1.38')
    const context = await open()
    await context.up(silent)
    expect(await context.running()).toBe(true)
    vi.unstubAllEnvs()
  })

  test('has its own copy of the kubeconfig, and that of the user is not changed', async () => {
    const before = readFileSync(cluster.kubeconfig, 'utf8')
    const context = await open()
    expect(context.kubeconfig).not.toBe(cluster.kubeconfig)
    expect(statSync(context.kubeconfig).mode & 0o777).toBe(0o600)
    expect(readFileSync(cluster.kubeconfig, 'utf8')).toBe(before)
  })

  test('a lab that needs what its kernel lacks is refused, without loading a module', async () => {
    const context = await open()
    const needs = ['ipvs', 'ipset', 'recent', 'nft'] as const
    const lacks = await kernelLackOf(cluster, needs)
    expect(await kernelLackOf(context, needs)).toEqual(lacks)
    const lab = { ...readLab(2), kernel: [...needs] }
    if (lacks.length > 0) await expect(mustRunHere(context, lab)).rejects.toThrow(lacks[0])
    await mustRunHere(context, { ...lab, kernel: [] })
  })

  test('runs commands on nodes as the other drivers do: exit code, both outputs, input, files', async () => {
    const context = await open()
    expect(await context.nodes()).toEqual(await cluster.nodes())
    expect(await context.exec(worker, ['sh', '-c', 'echo out; echo err >&2; exit 7'])).toEqual({
      exitCode: 7,
      stdout: 'out\n',
      stderr: 'err\n',
    })
    const here = ['sh', '-c', 'ip -o -4 addr show eth0']
    expect((await context.exec(worker, here)).stdout).toBe(
      (await cluster.exec(worker, here)).stdout,
    )
    const input = `${'x'.repeat(100_000)}\nend`
    expect(
      (await context.exec(worker, ['sh', '-c', 'wc -c; echo done'], { stdin: input })).stdout,
    ).toBe('100004\ndone\n')
    await context.exec(worker, ['sh', '-c', 'cat >/dev/shm/from-context'], { stdin: 'äöü' })
    expect((await context.exec(worker, ['cat', '/dev/shm/from-context'])).stdout).toBe('äöü')
    await expect(context.exec(worker, ['sleep', '30'], { timeoutMs: 500 })).rejects.toThrow(
      /did not finish in time/,
    )
    await expect(context.exec('nowhere', ['true'])).rejects.toThrow(
      /Node "nowhere" has no node-access Pod/,
    )
  })

  test('is read without consent: its capture equals one of the cluster itself', async () => {
    const context = await open()
    const [own, other] = await Promise.all(
      [cluster, context].map(
        async (one) => new Snapshot(await takeCapture(one, await kubeClient(one))),
      ),
    )
    for (const node of own?.nodes ?? []) {
      const same = other?.node(node.name)
      expect(same?.mode).toBe('iptables')
      expect(rulesOf(same)).toEqual(rulesOf(node))
    }
  })

  test('is changed only on purpose', async () => {
    const context = await open()
    await expect(switchMode(context, 'ipvs', { progress: silent })).rejects.toThrow(
      /^This would put kube-proxy into mode "ipvs"/,
    )
    expect(await modeAsked()).toBe('iptables')
  })

  const namespace = 'default'
  const make = (text: string, env: Record<string, string> = {}) => {
    const context = {
      ...process.env,
      KUBECONFIG: cluster.kubeconfig,
      CLUSTER: `context:${contextName}`,
      CI: '1',
    }
    const run = $({ cwd: projectRoot, quiet: true, nothrow: true, env: { ...context, ...env } })
    return run`make ${text.split(' ')}`
  }
  const agreed = async (sentence: string) => {
    const { exitCode, stdout, stderr } = await make(sentence, { YES: '1' })
    expect(exitCode, `make ${sentence}\n${stdout}\n${stderr}`).toBe(0)
    return { stdout, stderr }
  }
  /** Every object of the labs' namespace but Pods, which come and go, by kind and name. */
  const objects = async () => {
    const { core, apps } = await kubeClient(cluster)
    const lists = await Promise.all([
      apps.listNamespacedDeployment({ namespace }),
      core.listNamespacedService({ namespace }),
      core.listNamespacedConfigMap({ namespace }),
    ])
    return lists
      .flatMap(({ items }) => items.map(({ metadata }) => `${metadata?.name} ${metadata?.uid}`))
      .sort()
  }

  test.each([
    'web',
    'lab-1',
    'solve-1',
    'reset-1',
    'incident',
    'answer Q=chain-name A=x',
    'measure MAX=10',
    'ipvs',
    'tools',
    'down',
  ])('make %s changes nothing unasked', async (phrase) => {
    const before = await objects()
    const { exitCode, stderr } = await make(phrase)
    expect(`${exitCode} ${stderr}`).toMatch(
      new RegExp(
        `^2 (.*\\n)*.*This would .* on the cluster of context "${contextName}"; nothing was changed.*YES=1`,
      ),
    )
    expect(await objects()).toEqual(before)
  })

  test('grading only reads, and reports that nothing is stored', async () => {
    const before = await objects()
    const { exitCode, stdout, stderr } = await make('check-1 STEP=web')
    expect(exitCode, stdout + stderr).not.toBe(0)
    expect(stdout).toMatch(/web/)
    expect(await objects()).toEqual(before)
  })

  test("other users' objects are kept, whatever their labels and names; one confirmation covers a command", async () => {
    const { core, apps } = await kubeClient(cluster)
    const labels = { app: 'web' }
    const pods = { app: 'theirs' }
    const containers = [{ name: 'theirs', image: 'nginx' }]
    const template = { metadata: { labels: pods }, spec: { containers } }
    const spec = { replicas: 1, selector: { matchLabels: pods }, template }
    await apps.createNamespacedDeployment({
      namespace,
      body: { metadata: { name: 'theirs', labels }, spec },
    })
    const service = { selector: pods, ports: [{ port: 80 }] }
    await core.createNamespacedService({
      namespace,
      body: { metadata: { name: 'theirs', labels }, spec: service },
    })
    await core.createNamespacedConfigMap({
      namespace,
      body: { metadata: { name: 'lab-4' }, data: { theirs: 'yes' } },
    })
    await core.createNamespacedPod({
      namespace,
      body: { metadata: { name: 'client' }, spec: { containers } },
    })
    const theirs = await objects()
    const client = async () =>
      (await core.readNamespacedPod({ namespace, name: 'client' })).metadata?.uid
    const theirClient = await client()

    const { stderr } = await agreed('web')
    expect(
      stderr.match(/YES=1: this will create .*"web".* on the cluster of context/g),
    ).toHaveLength(1)
    expect((await core.readNamespacedService({ namespace, name: 'web' })).metadata?.labels).toEqual(
      {
        ...labels,
        'app.kubernetes.io/managed-by': 'kube-service-labs',
      },
    )
    const reset = await agreed('reset-1')
    expect(reset.stderr).toMatch(
      /pods "client" in namespace "default" does not belong to these labs .* was not changed/,
    )
    expect((await objects()).filter((one) => !one.startsWith('lab-1 '))).toEqual(theirs)
    expect(await client()).toBe(theirClient)
  })

  test('a name in use, and labels that other objects have, are refused before anything is created', async () => {
    const { core, apps } = await kubeClient(cluster)
    const service = { selector: { app: 'web' }, ports: [{ port: 80 }] }
    const before = await objects()
    const refused = async () => {
      const { exitCode, stderr } = await make('web', { YES: '1' })
      return `${exitCode} ${stderr}`
    }
    await core.createNamespacedService({
      namespace,
      body: { metadata: { name: 'shop' }, spec: service },
    })
    expect(await refused()).toMatch(/^2 [\s\S]*deployments "web" .* would mix with Service "shop"/)
    await core.deleteNamespacedService({ namespace, name: 'shop' })
    await apps.createNamespacedDeployment({
      namespace,
      body: {
        metadata: { name: 'web' },
        spec: {
          replicas: 0,
          selector: { matchLabels: { app: 'x' } },
          template: {
            metadata: { labels: { app: 'x' } },
            spec: { containers: [{ name: 'x', image: 'nginx' }] },
          },
        },
      },
    })
    expect(await refused()).toMatch(
      /^2 [\s\S]*deployments "web" in namespace "default" does not belong to these labs/,
    )
    await apps.deleteNamespacedDeployment({ namespace, name: 'web' })
    expect(await objects()).toEqual(before)
  })

  test('its targets are those of the other drivers, and `make down` removes our objects and nothing else', async () => {
    expect((await make('status')).stdout.match(/Ready .* kube-proxy: iptables/g)).toHaveLength(3)
    const theirs = (await objects()).filter((one) => !one.startsWith('lab-1 '))
    await agreed('web')
    const { stdout } = await agreed('down')
    expect(stdout).not.toMatch(/cluster .* is gone/)
    expect(await objects()).toEqual(theirs)
    expect(await namespaces()).not.toContain('kube-service-labs')
    expect(await (await open()).running()).toBe(false)
  })
})
