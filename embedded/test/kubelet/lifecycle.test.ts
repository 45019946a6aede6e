import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Event } from '../../controllers/resources.ts'
import type { Pod } from '../../kubelet/objects.ts'
import { type GuestCluster, startGuestCluster, worker, worker2 } from './guest-cluster.ts'

let cluster: GuestCluster

beforeAll(async () => {
  cluster = await startGuestCluster()
})

afterAll(() => cluster?.stop())

const shell = (script: string) => ({ image: 'tools', command: ['sh', '-c', script] })

/** The namespaces and folders of Pods in the guest. */
const left = async () => (await cluster.machine.run(['sh', '-c', 'ip netns; ls /run/pods'])).stdout

/** Waits for the output of a container, which shows that its process has come that far. */
const printed = (name: string, text: string) =>
  expect.poll(() => cluster.logs(name).catch(() => '')).toBe(text)

/** Calls `act` when a container of the Pod has been created, before its process is started. */
function onceCreated(name: string, perform: () => void): Promise<void> {
  return new Promise((resolve) => {
    const end = cluster.api.watch<Event>('events', (_type, { reason, involvedObject }) => {
      if (reason !== 'Created' || involvedObject.name !== name) return
      end()
      perform()
      resolve()
    })
  })
}

describe('starting', () => {
  test('an unknown image is ErrImagePull with an event that lists the images, until it is replaced', async () => {
    cluster.create('unknown', worker, { image: 'nosuch:1.0' })
    await cluster.until(
      'unknown',
      'ErrImagePull',
      (_pod, { state }) => state?.waiting?.reason === 'ErrImagePull',
    )
    const failure = cluster
      .events('unknown')
      .find((line) => line.startsWith('Warning Failed Failed to pull image "nosuch:1.0"'))
    for (const name of ['nginx', 'tools', 'echo']) expect(failure).toContain(name)
    expect(cluster.pod('unknown')?.status?.phase).toBe('Pending')
    const pod = cluster.pod('unknown')
    const containers = pod?.spec.containers.map((container) => ({ ...container, image: 'tools' }))
    cluster.api.patch('pods', 'default', 'unknown', { spec: { containers } })
    await cluster.ready('unknown')
  })

  test('environment, arguments, working directory and volumes are those of the Pod specification', async () => {
    const { api } = cluster
    api.create('configmaps', 'default', {
      metadata: { name: 'settings' },
      data: { COLOUR: 'green', 'app.conf': 'x=1\n' },
    })
    api.create('secrets', 'default', { metadata: { name: 'token' }, stringData: { word: 'hush' } })
    cluster.create(
      'configured',
      worker,
      {
        image: 'tools',
        command: [
          'sh',
          '-c',
          'echo $0 $COLOUR $NODE $WORD $PREFIXED_COLOUR; pwd; cat /etc/app/app.conf; sleep 1000',
          '$(NODE)-$(IP)',
        ],
        workingDir: '/var/cache',
        envFrom: [{ prefix: 'PREFIXED_', configMapRef: { name: 'settings' } }],
        env: [
          { name: 'NODE', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } },
          { name: 'IP', valueFrom: { fieldRef: { fieldPath: 'status.podIP' } } },
          { name: 'COLOUR', valueFrom: { configMapKeyRef: { name: 'settings', key: 'COLOUR' } } },
          { name: 'WORD', valueFrom: { secretKeyRef: { name: 'token', key: 'word' } } },
        ],
        volumeMounts: [
          { name: 'settings', mountPath: '/etc/app' },
          { name: 'scratch', mountPath: '/data' },
        ],
      },
      {
        initContainers: [
          {
            name: 'first',
            ...shell('echo prepared >/data/file'),
            volumeMounts: [{ name: 'scratch', mountPath: '/data' }],
          },
        ],
        volumes: [
          { name: 'settings', configMap: { name: 'settings' } },
          { name: 'scratch', emptyDir: {} },
        ],
      },
    )
    await cluster.ready('configured')
    const ip = cluster.pod('configured')?.status?.podIP
    const expected = `${worker}-${ip} green ${worker} hush green\n/var/cache\nx=1\n`
    await cluster.until('configured', 'output', () => true)
    await expect.poll(() => cluster.logs('configured')).toBe(expected)
    expect((await cluster.exec('configured', 'cat /data/file')).stdout).toBe('prepared\n')
    const [init] = cluster.pod('configured')?.status?.initContainerStatuses ?? []
    expect(init?.state?.terminated).toMatchObject({ exitCode: 0, reason: 'Completed' })
  })

  test('what follows a sidecar waits until its startup probe has passed', async () => {
    const volumeMounts = [{ name: 'scratch', mountPath: '/data' }]
    const exec = { command: ['test', '-e', '/data/started'] }
    const startupProbe = { exec, periodSeconds: 1, failureThreshold: 60 }
    const sidecar = shell('sleep 2; touch /data/started; exec sleep 1000')
    cluster.create(
      'beside',
      worker,
      { ...shell('cat /data/seen; sleep 1000'), volumeMounts },
      {
        initContainers: [
          { name: 'sidecar', restartPolicy: 'Always', ...sidecar, startupProbe, volumeMounts },
          { name: 'next', ...shell('ls /data >/data/seen'), volumeMounts },
        ],
        volumes: [{ name: 'scratch', emptyDir: {} }],
      },
    )
    await cluster.ready('beside')
    await expect.poll(() => cluster.logs('beside')).toContain('started\n')
  })

  test('a hostPath of type FileOrCreate leaves what is there, also a pipe, and else is an empty file', async () => {
    const volumeMounts = [{ name: 'node', mountPath: '/node' }]
    const onNode = (name: string, path: string, type: string) => {
      const volumes = [{ name: 'node', hostPath: { path, type } }]
      cluster.create(name, worker, { ...shell('sleep 1000'), volumeMounts }, { volumes })
    }
    onNode('maker', '/run', 'Directory')
    await cluster.ready('maker')
    await cluster.exec('maker', 'cd /node; echo mine >kept; mkfifo pipe')
    onNode('with-kept', '/run/kept', 'FileOrCreate')
    onNode('with-pipe', '/run/pipe', 'FileOrCreate')
    onNode('with-new', '/run/new', 'FileOrCreate')
    await cluster.ready('with-kept', 'with-pipe', 'with-new')
    const { stdout } = await cluster.exec('maker', 'cd /node; cat kept; stat -c "%n %F" pipe new')
    expect(stdout).toBe('mine\npipe fifo\nnew regular empty file\n')
  })

  test('a missing key is a CreateContainerConfigError that names it', async () => {
    const env = [{ name: 'A', valueFrom: { configMapKeyRef: { name: 'absent', key: 'k' } } }]
    cluster.create('misconfigured', worker, { image: 'tools', env })
    await cluster.until(
      'misconfigured',
      'the error',
      (_pod, { state }) => state?.waiting?.reason === 'CreateContainerConfigError',
    )
    expect(
      cluster.pod('misconfigured')?.status?.containerStatuses?.[0]?.state?.waiting?.message,
    ).toBe('configmap "absent" not found')
    const limit = [{ name: 'A', valueFrom: { resourceFieldRef: { resource: 'limits.cpu' } } }]
    cluster.create('limited', worker, { image: 'tools', env: limit })
    await cluster.until(
      'limited',
      'the error',
      (_pod, { state }) => state?.waiting?.message?.includes('resourceFieldRef') === true,
    )
  })
})

describe('ending', () => {
  test('a container that fails is restarted immediately, then after a growing delay', async () => {
    cluster.create('crash', worker2, shell('echo run; exit 3'))
    await cluster.until(
      'crash',
      'CrashLoopBackOff',
      (_pod, { state, restartCount }) =>
        restartCount >= 1 && state?.waiting?.reason === 'CrashLoopBackOff',
    )
    const status = cluster.pod('crash')?.status?.containerStatuses?.[0]
    expect(status?.lastState?.terminated).toMatchObject({ exitCode: 3, reason: 'Error' })
    expect(status?.state?.waiting?.message).toMatch(
      /^back-off 10s restarting failed container=main pod=crash_default\(/,
    )
    expect(await cluster.logs('crash', { previous: true })).toBe('run\n')
    expect(cluster.pod('crash')?.status).toMatchObject({ phase: 'Running' })
    expect(cluster.events('crash').join('\n')).toMatch(
      /Warning BackOff Back-off restarting failed container main in pod crash_default\(/,
    )
    const last = new Promise<Pod>((resolve) => {
      const end = cluster.api.watch<Pod>('pods', (type, pod) => {
        if (type !== 'DELETED' || pod.metadata.name !== 'crash') return
        end()
        resolve(pod)
      })
    })
    cluster.api.delete('pods', 'default', 'crash')
    expect((await last).status?.containerStatuses?.[0]?.restartCount).toBe(status?.restartCount)
  })

  test('Pods with the policies Never and OnFailure end as Failed and Succeeded, and their network is removed', async () => {
    cluster.create('failed', worker, shell('exit 2'), { restartPolicy: 'Never' })
    cluster.create('done', worker, shell('exit 0'), { restartPolicy: 'OnFailure' })
    await cluster.until('failed', 'Failed', ({ status }) => status?.phase === 'Failed')
    await cluster.until('done', 'Succeeded', ({ status }) => status?.phase === 'Succeeded')
    const links = async () => (await cluster.machine.run(['ip', 'netns'])).stdout
    const uid = cluster.pod('done')?.metadata.uid
    await expect.poll(links).not.toContain(uid)
  })

  test('deletion sends SIGTERM, and waits for the process to end', async () => {
    cluster.create('graceful', worker, {
      ...shell(
        'trap "echo term; sleep 0.5; echo bye; exit 0" TERM; echo up; while :; do sleep 0.1; done',
      ),
    })
    await printed('graceful', 'up\n')
    const log = cluster.logs('graceful', { follow: true })
    cluster.api.delete('pods', 'default', 'graceful')
    expect(cluster.pod('graceful')?.metadata.deletionTimestamp).toBeDefined()
    await cluster.gone('graceful')
    expect(await log).toBe('up\nterm\nbye\n')
    expect(cluster.events('graceful')).toContain('Normal Killing Stopping container main')
  })

  test('the preStop hook runs before SIGTERM, once, and the Pod stays ready meanwhile', async () => {
    const command = ['sh', '-c', 'echo hook >>/tmp/order; until [ -e /tmp/go ]; do sleep 0.1; done']
    const order = 'trap "cat /tmp/order; echo term; exit 0" TERM; while :; do sleep 0.1; done'
    cluster.create('hooked', worker, {
      ...shell(order),
      lifecycle: { preStop: { exec: { command } } },
    })
    await cluster.ready('hooked')
    const log = cluster.logs('hooked', { follow: true })
    cluster.api.delete('pods', 'default', 'hooked')
    await expect
      .poll(async () => (await cluster.exec('hooked', 'cat /tmp/order')).stdout)
      .toBe('hook\n')
    await cluster.ready('hooked')
    await cluster.exec('hooked', 'touch /tmp/go')
    await cluster.gone('hooked')
    expect(await log).toBe('hook\nterm\n')
  })

  test('the grace period also counts for the preStop hook; a hook that fails is an event', async () => {
    const sleeping = { sleep: { seconds: 60 } }
    const failing = { exec: { command: ['sh', '-c', 'echo why; exit 3'] } }
    cluster.create(
      'overslept',
      worker,
      { ...shell('while :; do sleep 0.1; done'), lifecycle: { preStop: sleeping } },
      { terminationGracePeriodSeconds: 1 },
    )
    cluster.create('unhooked', worker, {
      ...shell('trap "exit 0" TERM; while :; do sleep 0.1; done'),
      lifecycle: { preStop: failing },
    })
    await cluster.ready('overslept', 'unhooked')
    for (const name of ['overslept', 'unhooked']) cluster.api.delete('pods', 'default', name)
    await cluster.gone('overslept')
    await cluster.gone('unhooked')
    expect(cluster.events('unhooked')).toContainEqual(
      expect.stringMatching(/^Warning FailedPreStopHook PreStopHook failed: .*exited with 3: why/),
    )
  })

  test('a process that ignores SIGTERM is killed when the grace period is over', async () => {
    cluster.create(
      'stubborn',
      worker,
      shell('trap "" TERM; echo up; while :; do sleep 0.1; done'),
      {
        terminationGracePeriodSeconds: 1,
      },
    )
    await printed('stubborn', 'up\n')
    const log = cluster.logs('stubborn', { follow: true })
    const begun = Date.now()
    cluster.api.delete('pods', 'default', 'stubborn')
    await cluster.gone('stubborn')
    expect(Date.now() - begun).toBeGreaterThan(900)
    expect(await log).toBe('up\n')
  })

  test('a forced deletion leaves nothing behind', async () => {
    cluster.create('forced', worker, shell('trap "" TERM; while :; do sleep 0.1; done'))
    await cluster.ready('forced')
    const uid = cluster.pod('forced')?.metadata.uid
    cluster.api.delete('pods', 'default', 'forced', { gracePeriodSeconds: 0 })
    expect(cluster.pod('forced')).toBeUndefined()
    await expect.poll(left).not.toContain(uid)
  })

  test('a forced deletion while a container is started leaves nothing behind', async () => {
    const created = onceCreated('early', () =>
      cluster.api.delete('pods', 'default', 'early', { gracePeriodSeconds: 0 }),
    )
    cluster.create('early', worker, shell('trap "" TERM; while :; do sleep 0.1; done'))
    const uid = cluster.pod('early')?.metadata.uid
    await created
    await expect.poll(left).not.toContain(uid)
  })
})

describe('a change of the image', () => {
  const setImage = (name: string, image: string) => {
    const containers = cluster
      .pod(name)
      ?.spec.containers.map((container) => ({ ...container, image }))
    cluster.api.patch('pods', 'default', name, { spec: { containers } })
  }
  const restarted = (name: string) =>
    cluster.until(
      name,
      'a restart',
      (_pod, { restartCount, state }) => restartCount === 1 && state?.running !== undefined,
    )

  test('ends the container with the signal of the image that it runs', async () => {
    cluster.create(
      'changed',
      worker,
      shell('trap "echo term; exit 0" TERM; echo up; while :; do sleep 0.1; done'),
    )
    await printed('changed', 'up\n')
    setImage('changed', 'nginx')
    await restarted('changed')
    expect(await cluster.logs('changed', { previous: true })).toBe('up\nterm\n')
    expect(cluster.events('changed')).toContain(
      'Normal Killing Container main definition changed, will be restarted',
    )
  })

  test('kills a process that ignores the signal when the grace period is over', async () => {
    cluster.create(
      'unchanged',
      worker,
      shell('trap "" TERM; echo up; while :; do sleep 0.1; done'),
      {
        terminationGracePeriodSeconds: 1,
      },
    )
    await printed('unchanged', 'up\n')
    setImage('unchanged', 'busybox')
    await restarted('unchanged')
    expect(cluster.pod('unchanged')?.status?.containerStatuses?.[0]).toMatchObject({
      imageID: expect.stringMatching(/^busybox@/),
      lastState: { terminated: { exitCode: 137, reason: 'Error' } },
    })
  })

  test('takes effect while the container is started', async () => {
    const created = onceCreated('hasty', () => setImage('hasty', 'busybox'))
    // The signal may come before the trap is set, and the first process of a namespace ignores it
    // then.
    cluster.create('hasty', worker, shell('trap "exit 0" TERM; while :; do sleep 0.1; done'), {
      terminationGracePeriodSeconds: 1,
    })
    await created
    await restarted('hasty')
    expect(cluster.pod('hasty')?.status?.containerStatuses?.[0]?.imageID).toMatch(/^busybox@/)
  })
})

describe('probes', () => {
  test('the readiness probe sets the condition Ready, with the reason', async () => {
    const readinessProbe = { exec: { command: ['test', '-e', '/ready'] }, periodSeconds: 1 }
    cluster.create('gated', worker, { image: 'tools', readinessProbe })
    await cluster.until('gated', 'running', (_pod, { state }) => state?.running !== undefined)
    await expect
      .poll(() => cluster.events('gated').join())
      .toContain('Unhealthy Readiness probe failed: ')
    const ready = cluster.pod('gated')?.status?.conditions?.find(({ type }) => type === 'Ready')
    expect(ready).toMatchObject({
      status: 'False',
      reason: 'ContainersNotReady',
      message: 'containers with unready status: [main]',
    })
    await cluster.exec('gated', 'touch /ready')
    await cluster.ready('gated')
    await cluster.exec('gated', 'rm /ready')
    await cluster.until('gated', 'unready', (_pod, status) => !status.ready)
  })

  test('HTTP and TCP probes come from the node', async () => {
    const readinessProbe = { httpGet: { path: '/', port: 'http' as never }, periodSeconds: 1 }
    cluster.create('probed', worker, {
      image: 'nginx',
      ports: [{ name: 'http', containerPort: 80 }],
      readinessProbe,
    })
    cluster.create('listens', worker2, {
      image: 'echo',
      readinessProbe: { tcpSocket: { port: 8080 as never }, periodSeconds: 1 },
    })
    cluster.create('deaf', worker2, {
      image: 'tools',
      readinessProbe: { tcpSocket: { port: 81 as never }, periodSeconds: 1 },
    })
    await cluster.ready('probed', 'listens')
    await expect
      .poll(() => cluster.logs('probed'))
      .toMatch(/10\.244\.1\.1 .*"GET \/ HTTP\/1.1" 200 .*"kube-probe\/1.34"/)
    await expect
      .poll(() => cluster.events('deaf').join())
      .toMatch(/Readiness probe failed: dial tcp 10\.244\.2\.\d+:81: connect: connection refused/)
  })

  test('a failing liveness probe restarts the container, but not before the startup probe has succeeded', async () => {
    // A command that takes longer than the usual second on a busy machine would be a failure, too.
    const probe = (...test: string[]) => ({
      exec: { command: ['test', ...test] },
      periodSeconds: 1,
      timeoutSeconds: 60,
    })
    const livenessProbe = { ...probe('!', '-e', '/dead'), failureThreshold: 1 }
    const startupProbe = { ...probe('-e', '/begun'), failureThreshold: 100 }
    cluster.create('mortal', worker, { image: 'tools', livenessProbe, startupProbe })
    await expect
      .poll(() => cluster.events('mortal').join())
      .toContain('Unhealthy Startup probe failed: ')
    expect(cluster.pod('mortal')?.status?.containerStatuses?.[0]).toMatchObject({
      ready: false,
      started: false,
    })
    await cluster.exec('mortal', 'touch /begun')
    await cluster.ready('mortal')
    await cluster.exec('mortal', 'touch /dead')
    await cluster.until(
      'mortal',
      'a restart',
      (_pod, { restartCount, state }) => restartCount === 1 && state?.running !== undefined,
    )
    expect(cluster.events('mortal')).toContain(
      'Normal Killing Container main failed liveness probe, will be restarted',
    )
  })
})

test('cluster DNS resolves Services over UDP and TCP, and no other names', async () => {
  const { api } = cluster
  api.create('services', 'default', {
    metadata: { name: 'web' },
    spec: { ports: [{ name: 'http', port: 80 }] },
  })
  api.create('services', 'default', {
    metadata: { name: 'peers' },
    spec: { clusterIP: 'None', ports: [{ name: 'p', port: 1 }] },
  })
  cluster.create('dns', worker, { image: 'registry.k8s.io/coredns/coredns:v1.12.1' })
  cluster.create('client', worker2, { image: 'busybox' })
  await cluster.ready('dns', 'client')
  const clusterIP = api.get<
    { spec: { clusterIP: string } } & import('../../apiserver/api.ts').KubeObject
  >('services', 'default', 'web')?.spec.clusterIP
  const server = `@${cluster.pod('dns')?.status?.podIP}`
  const dig = async (query: string) =>
    (await cluster.exec('client', `dig +time=2 +tries=2 ${server} ${query}`)).stdout.trim()
  const name = 'web.default.svc.cluster.local'
  expect(await dig(`+short ${name}`)).toBe(clusterIP)
  expect(await dig(`+short +tcp ${name}`)).toBe(clusterIP)
  expect(await dig('+short kubernetes.default.svc.cluster.local')).toBe('10.96.0.1')
  expect(await dig('nosuch.default.svc.cluster.local')).toContain('status: NXDOMAIN')
  const slice = {
    metadata: { name: 'peers-1', labels: { 'kubernetes.io/service-name': 'peers' } },
    addressType: 'IPv4',
    endpoints: [
      { addresses: ['10.244.1.77'], conditions: { ready: true }, hostname: 'one' },
      { addresses: ['10.244.1.78'], conditions: { ready: true } },
      { addresses: ['10.244.1.79'], conditions: { ready: false } },
    ],
    ports: [{ name: 'p', port: 1 }],
  }
  api.create('endpointslices', 'default', slice)
  const peers = async () =>
    (await dig('+short peers.default.svc.cluster.local')).split('\n').sort().join()
  await expect.poll(peers).toBe('10.244.1.77,10.244.1.78')
  expect(await dig('+short one.peers.default.svc.cluster.local')).toBe('10.244.1.77')
  api.delete('services', 'default', 'web')
  await expect.poll(() => dig(name)).toContain('status: NXDOMAIN')
})
