import { createServer, type Server } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { judgeLive } from '../../../instructors/class/judge-live.ts'
import { judgeAll } from '../../../instructors/class/judge-pool.ts'
import { requireSelfContained } from '../../../instructors/class/kubeconfig-safety.ts'
import { Refusal } from '../../../instructors/submission/refusal.ts'
import { fileOf } from '../submission/tar-bytes.ts'

const kubeconfig = (server: string, user = 'token: abc', cluster = 'insecure-skip-tls-verify: true') => `apiVersion: v1
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
  test('that stands alone is taken', () => {
    expect(requireSelfContained(kubeconfig('https://10.0.0.1:6443'))).toBe('https://10.0.0.1:6443')
  })

  test.each<[what: string, text: string, says: RegExp]>([
    [
      'runs a program',
      kubeconfig('https://h', 'exec: {command: /bin/sh, apiVersion: v1}'),
      /"exec", which would use programs/,
    ],
    ['runs an old plugin', kubeconfig('https://h', 'auth-provider: {name: gcp}'), /"auth-provider"/],
    ['reads a token of this machine', kubeconfig('https://h', 'tokenFile: /root/.token'), /"tokenFile"/],
    ['reads a key of this machine', kubeconfig('https://h', 'client-key: /root/.ssh/id'), /"client-key"/],
    [
      'reads a certificate of this machine',
      kubeconfig('https://h', 'token: x', 'certificate-authority: /etc/x'),
      /"certificate-authority"/,
    ],
    ['sends the token in the clear', kubeconfig('http://10.0.0.1'), /no https address/],
    ['names no cluster', kubeconfig('https://h').replace('cluster: c', 'cluster: d'), /names no cluster/],
    ['is no YAML', '{[', /no kubeconfig/],
    [
      'unfolds without end',
      `a: &a [x,x,x,x,x,x,x,x,x]\n${['b', 'c', 'd', 'e'].map((key, at) => `${key}: &${key} [${Array(9).fill(`*${'abcd'[at]}`).join()}]`).join('\n')}`,
      /no kubeconfig/,
    ],
    ['is too large', `#${'x'.repeat(2 ** 20)}\n`, /larger than a megabyte/],
  ])('that %s is refused', (_what, text, says) => {
    expect(() => requireSelfContained(text)).toThrow(Refusal)
    expect(() => requireSelfContained(text)).toThrow(says)
  })

  test('whose name is no learner’s is refused', async () => {
    expect(await judgeLive({ kubeconfig: fileOf(Buffer.from('x'), '=cmd.yaml'), lab: 2 })).toMatchObject({
      refused: expect.stringContaining('letters, digits'),
    })
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

  test('one that refuses and one that never answers cost themselves alone', async () => {
    const tasks = [
      { kubeconfig: fileOf(Buffer.from(kubeconfig('https://127.0.0.1:1')), 'alice.yaml'), lab: 2 },
      { kubeconfig: fileOf(Buffer.from(kubeconfig(`https://127.0.0.1:${port}`)), 'bob.yaml'), lab: 2 },
      { kubeconfig: fileOf(Buffer.from(kubeconfig('https://h', 'exec: {command: x}')), 'carol.yaml'), lab: 2 },
    ]
    const order: string[] = []
    const judged = await judgeAll(tasks, { jobs: 3, deadlineMs: 6000, onJudged: ({ file }) => order.push(file) })
    expect(judged).toEqual([
      { file: 'alice.yaml', refused: expect.stringMatching(/could not be graded \(.*ECONNREFUSED/) },
      { file: 'bob.yaml', refused: expect.stringMatching(/The cluster did not answer in [\d.]+ s/) },
      { file: 'carol.yaml', refused: expect.stringContaining('"exec"') },
    ])
    expect(order.at(-1)).toBe('bob.yaml')
  })
})
