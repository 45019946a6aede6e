import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { z } from 'zod'

const root = join(import.meta.dirname, '../..')
const recordings = join(root, 'data/recordings')
const kind = join(recordings, 'kind-v1.20.2/web-clusterip')
const folder = mkdtempSync(join(tmpdir(), 'trace-'))
afterAll(() => rmSync(folder, { recursive: true }))

const output = z.strictObject({
  hops: z.array(
    z.looseObject({
      hook: z.string(),
      table: z.string(),
      chain: z.string(),
      rule: z.string(),
      verdict: z.string(),
    }),
  ),
  outcomes: z.array(
    z.strictObject({ to: z.string(), probability: z.number(), masquerade: z.boolean() }),
  ),
  verdict: z.enum(['dnat', 'accept', 'reject', 'drop']),
})

function run(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['scripts/start.mjs', 'scripts/trace.ts', ...args],
    {
      cwd: root,
      encoding: 'utf8',
      env: { ...process.env, NO_COLOR: '1', DEBUG: '' },
    },
  )
  return { status, stdout, stderr }
}

describe('scripts/trace.ts', () => {
  test('prints the documented JSON for a node of a capture', () => {
    const packet = ['--from', 'external:203.0.113.9', '--to', '10.96.0.10:53/udp', '--json']
    const { status, stdout } = run('--capture', kind, '--node', 'k8s-guide-worker', ...packet)
    expect(status).toBe(0)
    const { hops, outcomes, verdict } = output.parse(JSON.parse(stdout))
    expect(verdict).toBe('dnat')
    expect(outcomes.map(({ to }) => to)).toEqual(
      expect.arrayContaining([expect.stringMatching(/^10\.244\.\d+\.\d+:53$/)]),
    )
    expect(outcomes.every(({ masquerade }) => masquerade)).toBe(true)
    expect(hops.map(({ chain }) => chain)).toEqual(
      expect.arrayContaining(['KUBE-SERVICES', 'KUBE-POSTROUTING']),
    )
  })

  test('explains the path through the files of one node', () => {
    const { status, stdout } = run(
      '--capture',
      join(recordings, 'v1.30.3/ipvs/web-no-endpoints'),
      '--from',
      'host',
      '--to',
      '10.96.119.228:80',
    )
    expect(status).toBe(0)
    expect(stdout).toContain('\n  ipvs: TCP 10.96.119.228:80\n    REJECT')
    expect(stdout).toContain('connection refused')
    // Into a pipe go plain lines, without the drawing.
    expect(stdout).toMatch(/^[ -~\n]*$/)
  })

  test('starts outside, and shows every rule with -v or VERBOSE=1', () => {
    const flow = [
      '--capture',
      join(recordings, 'v1.30.3/iptables/web-nodeport'),
      '--from',
      'outside',
      '--to',
      '172.18.0.3:31730',
    ]
    const drawn = run(...flow)
    expect(drawn.stdout).toMatch(/^203\.0\.113\.9 -> 172\.18\.0\.3:31730\/tcp\n/)
    const verbose = run(...flow, '-v')
    expect(verbose.stdout).toMatch(/no match: destination is 172\.18\.0\.3/)
    expect(drawn.stdout).not.toContain('no match')
    process.env.VERBOSE = '1'
    expect(run(...flow).stdout).toBe(verbose.stdout)
    delete process.env.VERBOSE
  })

  test('reports where an untranslated packet stops', () => {
    const { status, stdout } = run(
      '--capture',
      join(recordings, 'v1.30.3/iptables/web-clusterip'),
      '--from',
      'pod:10.244.1.99',
      '--to',
      '10.96.200.200:80',
    )
    expect(status).toBe(0)
    expect(stdout).toContain('It reaches KUBE-SERVICES and finds no rule for TCP 10.96.200.200:80.')
  })

  test('prints its help', () => {
    expect(run('--help')).toMatchObject({ status: 0, stderr: '' })
  })

  test.each([
    ['nothing to trace', [], 'FROM= and TO= must be given: make trace FROM='],
    [
      'no such folder',
      ['--capture', '/nowhere', '--from', 'host', '--to', '10.0.0.1:80'],
      '"/nowhere" is not a folder',
    ],
    [
      'a folder that is no capture',
      ['--capture', root, '--from', 'host', '--to', '10.0.0.1:80'],
      'is not a capture',
    ],
    [
      'several nodes',
      ['--capture', kind, '--from', 'host', '--to', '10.0.0.1:80'],
      'k8s-guide-worker2',
    ],
    [
      'an unknown node',
      ['--capture', kind, '--node', 'w9', '--from', 'host', '--to', '10.0.0.1:80'],
      '"w9" is not a node',
    ],
    [
      'a bad origin',
      ['--capture', kind, '--from', 'moon', '--to', '10.0.0.1:80'],
      '"moon" is not an origin',
    ],
    [
      'a bad destination',
      ['--capture', kind, '--from', 'host', '--to', 'web'],
      '"web" is not a destination',
    ],
    ['an unknown option', ['--frm', 'host'], '--frm'],
  ])('reports in a sentence what is wrong: %s', (_, args, sentence) => {
    const { status, stdout, stderr } = run(...args)
    expect(status).toBe(2)
    expect(stdout).toBe('')
    expect(stderr).toContain(sentence)
    expect(stderr).not.toMatch(/^\s+at /m)
  })

  test('names every file that cannot be read, with the line', () => {
    cpSync(join(recordings, 'v1.30.3/ipvs/web-lb'), folder, { recursive: true })
    writeFileSync(join(folder, 'iptables-save'), '*nat\nrubbish\n')
    writeFileSync(join(folder, 'ipvsadm-save'), 'rubbish too\n')
    const { status, stderr } = run('--capture', folder, '--from', 'host', '--to', '10.0.0.1:80')
    expect(status).toBe(2)
    expect(stderr).toContain('iptables-save, line 2')
    expect(stderr).toContain('ipvsadm -Sn, line 1')
  })
})
