import { once } from 'node:events'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { startTestCluster, type TestCluster, until } from './test-cluster.ts'

let cluster: TestCluster

beforeAll(async () => {
  cluster = await startTestCluster()
})
afterAll(() => cluster?.close())

function pod(name: string, extra: Record<string, unknown> = {}) {
  return cluster.api.create('pods', 'default', {
    metadata: { name, labels: { app: name } },
    spec: { containers: [{ name: 'main', image: 'nginx' }], ...extra },
  })
}

describe('logs and exec', () => {
  beforeAll(() => {
    pod('talker')
    cluster.api.create('pods', 'default', {
      metadata: { name: 'pair' },
      spec: { containers: ['a', 'b'].map((name) => ({ name, image: 'nginx' })) },
    })
  })

  test('logs, whole, by the tail and followed', async () => {
    expect(await cluster.ok('logs talker')).toBe('one\ntwo\nthree\n')
    expect(await cluster.ok('logs talker --tail=1 --timestamps --since=60s --previous')).toBe('three\n')
    expect(cluster.backend.logRequests.at(-1)).toMatchObject({
      container: 'main',
      previous: true,
      sinceSeconds: 60,
      tailLines: 1,
      timestamps: true,
    })
    const child = cluster.start(['logs', '-f', 'talker'])
    let seen = ''
    child.stdout?.on('data', (chunk) => {
      seen += chunk
    })
    await until('the log is followed', () => seen.includes('three'))
    cluster.backend.following?.write('four\n')
    await until('a new line arrives', () => seen.includes('four'))
    cluster.backend.following?.end()
    await until('kubectl ends with the log', () => child.exitCode === 0)
    const { stderr } = await cluster.kubectl(['logs', 'talker', '-c', 'nobody'])
    expect(stderr).toContain('container nobody is not valid for pod talker')
  })

  test('exec carries both outputs, input and the exit code', async () => {
    const { code, stdout, stderr } = await cluster.kubectl([
      'exec',
      'talker',
      '--',
      'sh',
      '-c',
      'echo out; echo err >&2; exit 7',
    ])
    expect(stdout).toBe('out\n')
    expect(stderr).toBe('err\ncommand terminated with exit code 7\n')
    expect(code).toBe(7)
    expect(cluster.backend.execs.at(-1)?.target).toEqual({
      kind: 'pod',
      namespace: 'default',
      name: 'talker',
      container: 'main',
    })
    const text = 'line of input\n'.repeat(20_000)
    const copied = await cluster.kubectl(['exec', '-i', 'talker', '--', 'cat'], { stdin: text })
    expect(copied.stdout.length).toBe(text.length)
    expect(copied.code).toBe(0)
  })

  test('exec into one container of several, and into none', async () => {
    await cluster.ok('exec pair -c b -- true')
    expect(cluster.backend.execs.at(-1)?.target).toMatchObject({ name: 'pair', container: 'b' })
    const { stderr } = await cluster.kubectl(['exec', 'nobody', '--', 'true'])
    expect(stderr).toContain('pods "nobody" not found')
  })

  test('a client whose input is not read waits with one listener, however many messages were under way', async () => {
    const warnings: Error[] = []
    const note = (warning: Error) => warnings.push(warning)
    process.on('warning', note)
    const url = `${cluster.url.replace('https', 'wss')}/api/v1/namespaces/default/pods/talker/exec?command=sleep&command=1&stdin=true&stdout=true`
    const client = new WebSocket(url, ['v5.channel.k8s.io'], {
      ca: cluster.ca,
      headers: { authorization: `Bearer ${cluster.token}` },
    })
    client.on('open', () => {
      for (let sent = 0; sent < 4000; sent++) client.send(Buffer.alloc(200))
    })
    await once(client, 'close')
    process.off('warning', note)
    expect(warnings).toEqual([])
  })

  test('exec over SPDY, as older kubectl does it', async () => {
    const env = { KUBECTL_REMOTE_COMMAND_WEBSOCKETS: 'false' }
    const command = ['exec', '-i', 'talker', '--', 'sh', '-c', 'cat; echo err >&2; exit 9']
    const text = 'line of input\n'.repeat(20_000)
    const { code, stdout, stderr } = await cluster.kubectl(command, { env, stdin: text })
    expect(stdout.length).toBe(text.length)
    expect(stderr).toBe('err\ncommand terminated with exit code 9\n')
    expect(code).toBe(9)
  })
})
