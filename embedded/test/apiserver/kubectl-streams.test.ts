import { once } from 'node:events'
import { beforeAll, describe, expect, test } from 'vitest'
import { until, useCluster } from './test-cluster.ts'

const cluster = useCluster()

describe('logs and exec', () => {
  beforeAll(() => {
    cluster.createPod('talker')
    cluster.createPod('pair', { containers: ['a', 'b'].map((name) => ({ name, image: 'nginx' })) })
  })

  test('logs, whole, by the tail and followed', async () => {
    expect(await cluster.ok('logs talker')).toBe('one\ntwo\nthree\n')
    expect(await cluster.ok('logs talker --tail=1 --timestamps --since=60s --previous')).toBe(
      'three\n',
    )
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
    const script = 'echo out; echo err >&2; exit 7'
    const { code, stdout, stderr } = await cluster.kubectl([
      'exec',
      'talker',
      '--',
      'sh',
      '-c',
      script,
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
    const command = 'command=sleep&command=1&stdin=true&stdout=true'
    const client = cluster.connect(`/api/v1/namespaces/default/pods/talker/exec?${command}`)
    client.on('open', () => {
      for (let sent = 0; sent < 4000; sent++) client.send(Buffer.alloc(200))
    })
    await once(client, 'close')
    process.off('warning', note)
    expect(warnings).toEqual([])
  })

  test('input after its end is ignored', async () => {
    const command = 'command=cat&stdin=true&stdout=true'
    const client = cluster.connect(`/api/v1/namespaces/default/pods/talker/exec?${command}`)
    let stdout = ''
    client.on('message', (message: Buffer) => {
      if (message[0] === 1) stdout += message.subarray(1)
    })
    client.on('open', () => {
      for (const message of ['\x00before', [255, 0], '\x00after', [255, 0]])
        client.send(Buffer.from(message as string))
    })
    await once(client, 'close')
    expect(stdout).toBe('before')
  })

  test('a client that is gone before its command has started leaves no process', async () => {
    const command = 'command=sleep&command=20&stdin=true&stdout=true&tty=true'
    const client = cluster.connect(`/api/v1/namespaces/default/pods/talker/exec?${command}`)
    const { length } = cluster.backend.processes
    await once(client, 'open')
    client.terminate()
    await until('the command is started', () => cluster.backend.processes.length > length)
    expect(await cluster.backend.processes.at(-1)?.exited).toEqual({ exitCode: 137, signal: 9 })
  })

  test('a client that offers no protocol of the commands is refused', async () => {
    const path = '/api/v1/namespaces/default/pods/talker/exec?command=true&stdout=true'
    const client = cluster.connect(path, 'v3.channel.k8s.io')
    const [, response] = await once(client, 'unexpected-response')
    expect(response.statusCode).toBe(400)
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
