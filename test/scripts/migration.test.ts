import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { migrationReportShape } from '../../dataplane/migration/report-shape.ts'
import { projectRoot } from '../../host/layout.ts'

const file = (name: string) => join('data/recordings/objects', `${name}.json`)
const run = (args: readonly string[], input = '') =>
  spawnSync(process.execPath, ['--import', 'tsx', 'scripts/migration.ts', ...args], {
    cwd: projectRoot,
    encoding: 'utf8',
    input,
    env: { ...process.env, CLUSTER: 'embedded', NAME: 'migration-none', NO_COLOR: '1' },
  })
const versioned = ['--from', 'ipvs', '--to', 'nftables', '--kube-proxy', 'v1.34']

test('exit status 1 and the Service, if a node port stops answering', () => {
  const { status, stdout } = run(['--objects', file('web-nodeport'), ...versioned])
  expect(stdout).toContain('default/web: node-port-address')
  expect(stdout).toContain('1 finding by which something stops.')
  expect(status).toBe(1)
})

test('exit status 0 if nothing stops, and objects on standard input', () => {
  const { status, stdout } = run(
    ['--objects', '-', ...versioned],
    readFileSync(join(projectRoot, file('web-clusterip')), 'utf8'),
  )
  expect(stdout).toContain('Nothing that answers now stops')
  expect(status).toBe(0)
})

test('--json has the documented shape; each side may have its own version', () => {
  const args = ['--from', 'iptables@v1.28', '--to', 'nftables@v1.36', '--json']
  const { status, stdout } = run([
    '--objects',
    file('web-nodeport'),
    '--kube-proxy',
    'v1.30',
    ...args,
  ])
  const report = migrationReportShape.parse(JSON.parse(stdout))
  expect([report.from, report.to]).toEqual([
    { mode: 'iptables', version: 'v1.28' },
    { mode: 'nftables', version: 'v1.36' },
  ])
  expect(status).toBe(1)
})

test('--capture: genuine nodes of kind have the addresses that are assumed of their objects', () => {
  const folder = 'data/recordings/kind-v1.20.2/nodeport-loadbalancer'
  const args = ['--to', 'ipvs', '--json']
  const { status, stdout } = run(['--capture', folder, ...args])
  const report = migrationReportShape.parse(JSON.parse(stdout))
  expect(report.from).toEqual({ mode: 'iptables', version: 'v1.20.2' })
  expect(report.changes.map(({ cause }) => cause)).toContain('node-port-on-loopback')
  const { stdout: assumed } = run(['--objects', join(folder, 'objects.json'), ...args])
  const callsIn = (json: string) =>
    migrationReportShape
      .parse(JSON.parse(json))
      .changes.flatMap(({ effect, cause, calls }) =>
        calls.map(({ client, to, before, after }) => [effect, cause, client, to, before, after]),
      )
  expect(callsIn(assumed)).toEqual(callsIn(stdout))
  expect(status).toBe(1)
})

test.each([
  [['--capture', 'x', '--to', 'ipvs', '--objects', 'y'], '', 'cannot be used together'],
  [['--to', 'nftables'], '', 'is empty; write it with: kubectl get'],
  [['--to', 'nftables'], '{"kind":"List","items":[]}', 'The objects contain no Node'],
  [['--to', 'bpf'], '', '--to "bpf" is not a mode: use iptables, ipvs'],
  [[], '', 'The new mode is missing'],
  [['--to', 'nftables', '--kube-proxy', 'v1.28'], 'web', 'is modelled from kube-proxy 1.30 on'],
  [['--to', 'nftables'], 'web', 'The Nodes do not report their version'],
  [['--to', 'ipvs', '--kube-proxy', 'v1.34', '--node', 'x'], 'web', 'Node "x" is not among'],
])('exit status 2 and one sentence: %j', (args, source, message) => {
  const input = source === 'web' ? readFileSync(join(projectRoot, file('web-lb')), 'utf8') : source
  const { status, stderr } = run(
    args.includes('--objects') ? args : ['--objects', '-', ...args],
    input,
  )
  expect(stderr).toContain(message)
  expect(status).toBe(2)
})
