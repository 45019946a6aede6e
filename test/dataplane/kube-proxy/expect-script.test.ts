import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parseIpAddr } from '../../../dataplane/ip-addr.ts'
import { parseIpsetSave } from '../../../dataplane/ipset-save.ts'
import { parseIptablesSave } from '../../../dataplane/iptables-save.ts'
import { parseIpvsadmSave } from '../../../dataplane/ipvsadm-save.ts'
import { recordingPath, stateAt } from '../recordings.ts'
import { strictDifference } from './strict-difference.ts'

const START = join(import.meta.dirname, '../../../scripts/start.mjs')

interface Run {
  code: number
  stdout: string
  stderr: string
}

const run = (args: string[], stdin = ''): Promise<Run> =>
  new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      [START, 'scripts/expect.ts', ...args],
      { maxBuffer: 2 ** 26, env: { ...process.env, NO_COLOR: '1' } },
      (error, stdout, stderr) => resolve({ code: error ? Number(error.code) : 0, stdout, stderr }),
    )
    child.stdin?.end(stdin)
  })

const objects = (scenario: string) => recordingPath('objects', `${scenario}.json`)
const about = ['--node', 'k8s-guide-worker', '--mode', 'ipvs', '--kube-proxy', 'v1.30.3']

describe('scripts/expect.ts', () => {
  test('prints each part as its tool does, equal to the recording', async () => {
    const print = async (format: string) =>
      (await run(['--objects', objects('web-lb-local'), ...about, '--as', format])).stdout
    const [iptables, ipsets, servers, links] = await Promise.all(
      ['iptables-save', 'ipset-save', 'ipvsadm-save', 'ip-addr'].map(print),
    )
    const printed = {
      iptables: parseIptablesSave(iptables ?? ''),
      ipsets: parseIpsetSave(ipsets ?? ''),
      virtualServers: parseIpvsadmSave(servers ?? ''),
      links: parseIpAddr(links ?? ''),
    }
    expect(strictDifference(stateAt(recordingPath('v1.30.3', 'ipvs', 'web-lb-local')), printed)).toEqual([])
  })

  test('reads standard input and prints JSON', async () => {
    const list = JSON.stringify({ kind: 'List', items: [{ kind: 'Node', metadata: { name: 'k8s-guide-worker' } }] })
    const { code, stdout } = await run(['--objects', '-', ...about, '--as', 'json'], list)
    expect(code).toBe(0)
    expect(Object.keys(JSON.parse(stdout))).toEqual(['iptables', 'ipsets', 'virtualServers', 'links'])
  })

  test('needs only the node and the mode for the output of kubectl', async () => {
    const { items } = JSON.parse(readFileSync(objects('web-clusterip'), 'utf8'))
    const status = (nodeInfo: object) => ({ nodeInfo, addresses: [{ type: 'InternalIP', address: '172.18.0.3' }] })
    const ofVersion = (nodeInfo: object) =>
      JSON.stringify({
        kind: 'List',
        items: items.map((item: { kind: string }) =>
          item.kind === 'Node' ? { ...item, status: status(nodeInfo) } : item,
        ),
      })
    const asked = ['--objects', '-', '--node', 'k8s-guide-worker', '--mode', 'ipvs']
    const [said, kubelet, newer, silent] = await Promise.all([
      run(asked, ofVersion({ kubeProxyVersion: 'v1.20.2', kubeletVersion: 'v1.30.3' })),
      run(asked, ofVersion({ kubeProxyVersion: '', kubeletVersion: 'v1.30.3' })),
      run(asked, ofVersion({ kubeletVersion: 'v1.99.0' })),
      run(asked, ofVersion({})),
    ])
    const filterChains = ({ stdout }: Run) => Object.keys(JSON.parse(stdout).iptables.filter)
    expect(filterChains(said)).not.toContain('KUBE-IPVS-FILTER')
    expect(filterChains(kubelet)).toContain('KUBE-IPVS-FILTER')
    expect(newer).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('"v1.99.0" is newer than the modelled versions'),
    })
    expect(silent).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('add --kube-proxy') })
  })

  test('refuses truncated, empty, wrong and hostile input with a sentence', async () => {
    const inputs = ['', '{"kind":"List","items":[', 'null', '[]', '"x"', '{"kind":"List","items":{}}', '{}']
    const deep = `${'{"kind":"List","items":['.repeat(5000)}${']}'.repeat(5000)}`
    const runs = await Promise.all([...inputs, deep].map((input) => run(['--objects', '-', ...about], input)))
    for (const { code, stdout, stderr } of runs) {
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
      expect(stderr).toMatch(/^ ✗ [^\n]+\n$/)
    }
    expect(runs[0]?.stderr).toContain('Standard input is empty')
    expect(runs[1]?.stderr).toContain('Standard input is not JSON')
  })

  test('--diff exits with 0 if the node is equal, else with 1 and the differences', async () => {
    const folder = recordingPath('v1.30.3', 'ipvs', 'web-nodeport')
    const [equal, different] = await Promise.all([
      run(['--objects', objects('web-nodeport'), ...about, '--diff', folder]),
      run(['--objects', objects('web-lb'), ...about, '--diff', folder]),
    ])
    expect(equal).toMatchObject({ code: 0, stdout: 'Equal: the node has exactly what kube-proxy programs.\n' })
    expect(different.code).toBe(1)
    expect(different.stdout).toContain('Missing (')
    expect(different.stdout).toContain('virtual server TCP 172.18.255.200:80 is missing')
    expect(different.stdout).toContain('Stale (')
  })

  test('uses the objects and addresses of a capture', async () => {
    const capture = recordingPath('kind-v1.20.2', 'nodeport-loadbalancer')
    const given = ['--node', 'k8s-guide-worker2', '--mode', 'iptables', '--kube-proxy', '1.20']
    expect(await run([...given, '--diff', capture])).toMatchObject({ code: 0 })
    expect(await run([...given, '--diff', capture, '--family', 'ipv6'])).toMatchObject({ code: 0 })
  })

  test('names an invalid object and leaves it out', async () => {
    const { items } = JSON.parse(readFileSync(objects('web-clusterip'), 'utf8'))
    const spec = { clusterIP: 'x', ports: [{ port: -1 }] }
    const bad = { kind: 'Service', metadata: { namespace: 'a', name: '\u001b[31mb' }, spec }
    const input = JSON.stringify({ kind: 'List', items: [bad, 7, ...items] })
    const [good, mixed] = await Promise.all([
      run(['--objects', objects('web-clusterip'), ...about, '--as', 'json']),
      run(['--objects', '-', ...about, '--as', 'json'], input),
    ])
    expect(mixed).toMatchObject({ code: 0, stdout: good.stdout })
    expect(mixed.stderr.split('\n')).toEqual([
      'Standard input: $.items[1] is left out: is not an API object.',
      expect.stringMatching(
        /^Standard input: Service a\/\\x1b\[31mb is left out: metadata\.name .*; spec\.clusterIP "x" is not an/,
      ),
      '',
    ])
  })

  test('exits with 2 for invalid input, with every fault and without a stack trace', async () => {
    const [args, version, missing] = await Promise.all([
      run(['--mode', 'ipv', '--as', 'text']),
      run([
        '--objects',
        objects('empty'),
        '--node',
        'k8s-guide-worker',
        '--mode',
        'ipvs',
        '--kube-proxy',
        '1.5',
        '--as',
        'json',
      ]),
      run(['--objects', '/nowhere.json', ...about, '--as', 'json']),
    ])
    for (const { code, stderr, stdout } of [args, version, missing]) {
      expect(code).toBe(2)
      expect(stdout).toBe('')
      expect(stderr).not.toMatch(/\n\s+at /)
    }
    for (const text of ['--mode "ipv"', '--as "text"', '--node is missing', '--objects is missing'])
      expect(args.stderr).toContain(text)
    expect(version.stderr).toContain('"1.5" is not modelled')
    expect(missing.stderr).toContain('"/nowhere.json" does not exist')
  })
})
