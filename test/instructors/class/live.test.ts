import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { createServer as createHttpsServer, type Server as HttpsServer } from 'node:https'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createServerTls } from '../../../embedded/apiserver/certificate.ts'
import { judgeLive } from '../../../instructors/class/judge-live.ts'
import { judgeAll } from '../../../instructors/class/judge-pool.ts'
import { clusterAccess } from '../../../instructors/class/kubeconfig-safety.ts'
import { SubmissionRefusal } from '../../../instructors/submission/untrusted-text.ts'
import { fileOf, removeWritten } from '../submission/tar-bytes.ts'

afterAll(removeWritten)

const kubeconfig = (
  server: string,
  user = 'token: abc',
  cluster = 'insecure-skip-tls-verify: true',
) => `apiVersion: v1
kind: Config
current-context: lab
clusters:
- name: c
  cluster:
    server: ${server}
    ${cluster}
users:
- name: u
  user:
    ${user}
contexts:
- name: lab
  context: {cluster: c, user: u}
`

describe('a stranger’s kubeconfig', () => {
  const plain = kubeconfig('https://10.0.0.1:6443')

  test('without references to files is accepted, field by field', () => {
    expect(clusterAccess(plain)).toEqual({
      server: 'https://10.0.0.1:6443',
      skipTLSVerify: true,
      token: 'abc',
    })
    const certificates = 'client-certificate-data: Y2VydA==, client-key-data: a2V5'
    const whole = kubeconfig(
      'https://h/k8s/clusters/c-1/',
      `{${certificates}}`,
      'certificate-authority-data: Y2E=',
    )
      .replace('    {client', '    {client')
      .replace('user:\n    {', 'user: {')
    expect(clusterAccess(whole)).toEqual({
      server: 'https://h/k8s/clusters/c-1',
      skipTLSVerify: false,
      caData: 'Y2E=',
      certData: 'Y2VydA==',
      keyData: 'a2V5',
    })
    expect(clusterAccess(JSON.stringify({ ...json(), extra: 1 }))).toEqual(clusterAccess(plain))
    expect(
      clusterAccess(plain.replace('    insecure', '    extensions: [{name: x}]\n    insecure')),
    ).toEqual(clusterAccess(plain))
  })

  const json = () => ({
    'current-context': 'lab',
    clusters: [
      { name: 'c', cluster: { server: 'https://10.0.0.1:6443', 'insecure-skip-tls-verify': true } },
    ],
    users: [{ name: 'u', user: { token: 'abc' } }],
    contexts: [{ name: 'lab', context: { cluster: 'c', user: 'u' } }],
  })
  const bomb = ['b', 'c', 'd', 'e'].map(
    (key, at) => `${key}: &${key} [${Array(9).fill(`*${'abcd'[at]}`).join()}]`,
  )

  test.each<[what: string, text: string, says: RegExp]>([
    [
      'runs a program',
      kubeconfig('https://h', 'exec: {command: /bin/sh, apiVersion: v1}'),
      /"exec"; programs and files/,
    ],
    [
      'runs an old plugin',
      kubeconfig('https://h', 'auth-provider: {name: gcp}'),
      /"auth-provider"/,
    ],
    [
      'reads a token of this machine',
      kubeconfig('https://h', 'tokenFile: /root/.token'),
      /"tokenFile"/,
    ],
    [
      'reads it by its other name',
      kubeconfig('https://h', 'token-file: /etc/shadow'),
      /"token-file"/,
    ],
    [
      'reads it beside a token',
      kubeconfig('https://h', '{token: x, token-file: /etc/shadow}').replace(
        'user:\n    {',
        'user: {',
      ),
      /"token-file"/,
    ],
    [
      'reads a key of this machine',
      kubeconfig('https://h', 'client-key: /root/.ssh/id'),
      /"client-key"/,
    ],
    [
      'reads a certificate of this machine',
      kubeconfig('https://h', 'token: x', 'certificate-authority: /etc/x'),
      /"certificate-authority"/,
    ],
    [
      'goes through a proxy',
      kubeconfig('https://h', 'token: x', 'proxy-url: http://10.0.0.1'),
      /"proxy-url"/,
    ],
    ['acts as another user', kubeconfig('https://h', 'as: root'), /"as"/],
    ['has a password', kubeconfig('https://h', 'username: root'), /"username"/],
    ['spells a field its own way', kubeconfig('https://h', 'Token: x'), /"Token"/],
    ['merges a map', kubeconfig('https://h', '<<: {exec: {command: x}}'), /"<<"/],
    ['merges a list', kubeconfig('https://h', '<<: [{token: x}, {exec: {command: x}}]'), /"<<"/],
    [
      'merges as YAML 1.1 does',
      `%YAML 1.1\n---\n${kubeconfig('https://h', '<<: {exec: {command: x}}')}`,
      /"exec"/,
    ],
    [
      'merges a user one level up',
      plain.replace(
        '- name: u\n  user:\n    token: abc',
        '- name: u\n  <<: {user: {exec: {command: x}}}',
      ),
      /names no user/,
    ],
    [
      'merges the whole',
      `<<: {users: []}\n${plain.replace('users:', 'usersx:')}`,
      /not a kubeconfig/,
    ],
    [
      'has an anchor and an alias',
      kubeconfig('https://h', '*x').replace('name: c', 'name: &x c'),
      /not a kubeconfig/,
    ],
    ['names a field twice', kubeconfig('https://h', 'token: a\n    token: b'), /not a kubeconfig/],
    ['is two documents', `${plain}---\n${plain}`, /not a kubeconfig/],
    [
      'has a tag',
      kubeconfig('https://h', 'token: !!binary aGFsbG8='),
      /"token" that is not what kubectl writes/,
    ],
    ['has a token of two lines', kubeconfig('https://h', 'token: "a\\r\\nX: y"'), /"token"/],
    [
      'has a map for its users',
      JSON.stringify({ ...json(), users: { u: { token: 'x' } } }),
      /not a kubeconfig/,
    ],
    [
      'speaks to JavaScript',
      JSON.stringify({
        ...json(),
        users: [{ name: 'u', user: JSON.parse('{"__proto__":{"exec":{}}}') }],
      }),
      /"__proto__"/,
    ],
    ['has no user', kubeconfig('https://h').replace('user: u', 'user: w'), /names no user/],
    [
      'has nothing to be known by',
      kubeconfig('https://h', '{}').replace('user:\n    {}', 'user: {}'),
      /neither a token nor/,
    ],
    ['sends the token in the clear', kubeconfig('http://10.0.0.1'), /not an https address/],
    ['names a file as its server', kubeconfig('file:///etc/passwd'), /not an https address/],
    ['has a login in its server', kubeconfig('https://a:b@h'), /not an https address/],
    [
      'names no cluster',
      kubeconfig('https://h').replace('cluster: c', 'cluster: d'),
      /names no cluster/,
    ],
    [
      'points elsewhere',
      plain.replace('current-context: lab', 'current-context: constructor'),
      /names no cluster/,
    ],
    ['is no YAML', '{[', /not a kubeconfig/],
    ['is nested without end', '['.repeat(50_000), /not a kubeconfig/],
    ['is nested to the end of the stack', `${'['.repeat(4000)}!!float 1.5`, /not a kubeconfig/],
    ['is nested without brackets', '- '.repeat(50_000), /not a kubeconfig/],
    ['is nested by its keys', '? '.repeat(50_000), /not a kubeconfig/],
    ['unfolds without end', `a: &a [x,x,x,x,x,x,x,x,x]\n${bomb.join('\n')}`, /not a kubeconfig/],
    ['unfolds in a context', `${plain}a: &a [x,x,x]\n${bomb.join('\n')}\n`, /not a kubeconfig/],
    ['is too large', `#${'x'.repeat(2 ** 20)}\n`, /larger than 256 KiB/],
  ])('that %s is refused', (_what, text, says) => {
    expect(() => clusterAccess(text)).toThrow(SubmissionRefusal)
    expect(() => clusterAccess(text)).toThrow(says)
  })

  test('whose file name is not a valid learner name is refused', async () => {
    expect(
      await judgeLive({ kubeconfig: fileOf(Buffer.from('x'), '=cmd.yaml'), lab: 2 }),
    ).toMatchObject({
      refused: expect.stringContaining('letters, digits'),
    })
  })

  test('that is a pipe or a folder is refused at once', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'kubeconfigs-'))
    execFileSync('mkfifo', [join(folder, 'alice.yaml')])
    mkdirSync(join(folder, 'bob.yaml'))
    const refused = async (name: string) => judgeLive({ kubeconfig: join(folder, name), lab: 2 })
    expect(await refused('alice.yaml')).toMatchObject({
      refused: expect.stringContaining('is not a regular file'),
    })
    expect(await refused('bob.yaml')).toMatchObject({
      refused: expect.stringContaining('is a folder'),
    })
    rmSync(folder, { recursive: true })
  })
})

describe('a kubeconfig that would use this machine', () => {
  let folder: string
  let server: HttpsServer
  let port = 0
  let heard = ''
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'this-machine-'))
    writeFileSync(join(folder, 'secret'), 'the-secret-of-this-machine')
    heard = ''
    server = createHttpsServer(createServerTls(), (request, response) => {
      heard += JSON.stringify(request.headers)
      response.writeHead(401).end('{}')
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = server.address()
    port = typeof address === 'object' && address ? address.port : 0
  })
  afterEach(() => {
    server.close()
    rmSync(folder, { recursive: true })
  })

  const program = () =>
    `{command: touch, args: [${join(folder, 'canary')}], apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}`
  test.each<[what: string, user: () => string]>([
    ['a program', () => `exec: ${program()}`],
    ['a merged program', () => `<<: {exec: ${program()}}`],
    ['a program merged from a list', () => `<<: [{token: x}, {exec: ${program()}}]`],
    ['a program behind an anchor', () => `<<: &a {exec: ${program()}}`],
    ['a file for its token', () => `token-file: ${join(folder, 'secret')}`],
    ['a merged file', () => `<<: {token-file: ${join(folder, 'secret')}}`],
    ['a file for its certificate', () => `client-certificate: ${join(folder, 'secret')}`],
  ])('by %s does not', async (_what, user) => {
    for (const head of ['', '%YAML 1.1\n---\n']) {
      const text = `${head}${kubeconfig(`https://127.0.0.1:${port}`, user())}`
      const judged = await judgeLive({ kubeconfig: fileOf(Buffer.from(text), 'eve.yaml'), lab: 2 })
      expect(existsSync(join(folder, 'canary'))).toBe(false)
      expect(`${heard}${JSON.stringify(judged)}`).not.toContain('the-secret')
      expect(judged).toMatchObject({ refused: expect.stringContaining('Its user has') })
    }
  })
})

describe('a hostile API server', () => {
  const elsewhere = { asked: 0 }
  let other: HttpsServer
  let server: HttpsServer
  let answer: 'redirect' | 'endless' | 'bomb' | 'deep' | 'terminal'
  const address = (one: HttpsServer) => {
    const bound = one.address()
    return `https://127.0.0.1:${typeof bound === 'object' && bound ? bound.port : 0}`
  }
  const json = { 'content-type': 'application/json' }
  const hostileAnswers: Record<typeof answer, (response: ServerResponse) => void> = {
    redirect: (response) => response.writeHead(302, { location: `${address(other)}/secret` }).end(),
    terminal: (response) =>
      response.writeHead(403, json).end('{"kind":"Status","message":"\\u001b]0;x\\u0007"}'),
    deep: (response) => response.writeHead(200, json).end('['.repeat(8 * 2 ** 20)),
    bomb: (response) =>
      response
        .writeHead(200, { ...json, 'content-encoding': 'gzip' })
        .end(gzipSync(Buffer.alloc(64 * 2 ** 20, 32))),
    endless: (response) => {
      const chunk = ' '.repeat(2 ** 16)
      const more = () => {
        while (!response.destroyed && response.write(chunk));
        if (!response.destroyed) response.once('drain', more)
      }
      response.writeHead(200, json)
      more()
    },
  }
  beforeAll(async () => {
    other = createHttpsServer(createServerTls(), (_request, response) => {
      elsewhere.asked++
      response.end('{"items":[]}')
    })
    server = createHttpsServer(createServerTls(), (_request, response) => {
      response.on('error', () => undefined)
      hostileAnswers[answer](response)
    })
    for (const one of [other, server])
      await new Promise<void>((resolve) => one.listen(0, '127.0.0.1', resolve))
  })
  afterAll(() => {
    for (const one of [other, server]) {
      one.closeAllConnections()
      one.close()
    }
  })

  test.each([
    ['that sends us elsewhere', 'redirect', /could not be graded \(.*302/],
    ['whose answer has no end', 'endless', /answered with more than 16 MiB/],
    ['whose answer unfolds to more than memory holds', 'bomb', /could not be graded/],
    ['whose answer is nested without end', 'deep', /could not be graded/],
    ['that speaks to the terminal', 'terminal', /could not be graded/],
  ] as const)('%s costs one sentence', async (_what, kind, says) => {
    answer = kind
    const file = fileOf(Buffer.from(kubeconfig(address(server))), 'mallory.yaml')
    // Other files of tests ran in this process before.
    const before = process.memoryUsage().rss
    const judged = await judgeLive({ kubeconfig: file, lab: 2 })
    const grown = process.memoryUsage().rss - before
    expect(judged).toMatchObject({ refused: expect.stringMatching(says) })
    expect(JSON.stringify(judged)).not.toMatch(/\\u001b|\\u0007/)
    expect(elsewhere.asked).toBe(0)
    expect(grown).toBeLessThan(2 ** 28)
  })
})

describe('dead clusters', () => {
  let silent: Server
  let port = 0
  beforeAll(async () => {
    silent = createServer(() => undefined)
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
    const address = silent.address()
    port = typeof address === 'object' && address ? address.port : 0
  })
  afterAll(() => silent.close())

  test('one that refuses and one that never answers do not affect the others', async () => {
    const tasks = [
      { kubeconfig: fileOf(Buffer.from(kubeconfig('https://127.0.0.1:1')), 'alice.yaml'), lab: 2 },
      {
        kubeconfig: fileOf(Buffer.from(kubeconfig(`https://127.0.0.1:${port}`)), 'bob.yaml'),
        lab: 2,
      },
      {
        kubeconfig: fileOf(
          Buffer.from(kubeconfig('https://h', 'exec: {command: x}')),
          'carol.yaml',
        ),
        lab: 2,
      },
    ]
    const order: string[] = []
    const judged = await judgeAll(tasks, {
      jobs: 3,
      deadlineMs: 6000,
      onJudged: ({ file }) => order.push(file),
    })
    expect(judged).toEqual([
      {
        file: 'alice.yaml',
        refused: expect.stringMatching(/could not be graded \(.*ECONNREFUSED/),
      },
      {
        file: 'bob.yaml',
        refused: expect.stringMatching(/The cluster did not respond in [\d.]+ s/),
      },
      { file: 'carol.yaml', refused: expect.stringContaining('"exec"') },
    ])
    expect(order.at(-1)).toBe('bob.yaml')
  })
})
