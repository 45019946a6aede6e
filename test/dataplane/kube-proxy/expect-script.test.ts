import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { parseArgs } from 'node:util'
import { describe, expect, test, vi } from 'vitest'
import { expectOptions, printExpected } from '../../../course/expect.ts'
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

const runScript = (args: string[], stdin = ''): Promise<Run> =>
  new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      [START, 'scripts/expect.ts', ...args],
      { maxBuffer: 2 ** 26, env: { ...process.env, NO_COLOR: '1' } },
      (error, stdout, stderr) => resolve({ code: error ? Number(error.code) : 0, stdout, stderr }),
    )
    child.stdin?.end(stdin)
  })

/** The same in this process; the sentence of an error is what the script prints. */
async function run(args: string[], stdin = ''): Promise<Run> {
  const printed = { stdout: '', stderr: '' }
  const spies = (['stdout', 'stderr'] as const).map((stream) =>
    vi.spyOn(process[stream], 'write').mockImplementation((text) => {
      printed[stream] += text
      return true
    }),
  )
  const input = vi
    .spyOn(process, 'stdin', 'get')
    .mockReturnValue(Readable.from([stdin]) as typeof process.stdin)
  try {
    return {
      code: await printExpected(parseArgs({ args, options: expectOptions }).values),
      ...printed,
    }
  } catch (error) {
    return { code: 2, ...printed, stderr: ` ✗ ${(error as Error).message}\n` }
  } finally {
    for (const spy of [...spies, input]) spy.mockRestore()
  }
}

const objects = (scenario: string) => recordingPath('objects', `${scenario}.json`)
const about = ['--node', 'k8s-guide-worker', '--mode', 'ipvs', '--kube-proxy', 'v1.30.3']

describe('scripts/expect.ts', () => {
  test('prints each part as its tool does, equal to the recording', async () => {
    const print = async (format: string) =>
      (await run(['--objects', objects('web-lb-local'), ...about, '--as', format])).stdout
    const printed = {
      iptables: parseIptablesSave(await print('iptables-save')),
      ipsets: parseIpsetSave(await print('ipset-save')),
      virtualServers: parseIpvsadmSave(await print('ipvsadm-save')),
      links: parseIpAddr(await print('ip-addr')),
    }
    expect(strictDifference(stateAt('v1.30.3/ipvs/web-lb-local'), printed)).toEqual([])
  })

  test('reads standard input and prints JSON', async () => {
    const list = JSON.stringify({
      kind: 'List',
      items: [{ kind: 'Node', metadata: { name: 'k8s-guide-worker' } }],
    })
    const { code, stdout } = await runScript(['--objects', '-', ...about, '--as', 'json'], list)
    expect(code).toBe(0)
    expect(Object.keys(JSON.parse(stdout))).toEqual([
      'iptables',
      'ipsets',
      'virtualServers',
      'links',
    ])
  })

  test('needs only the node and the mode for the output of kubectl', async () => {
    const { items } = JSON.parse(readFileSync(objects('web-clusterip'), 'utf8'))
    const status = (nodeInfo: object) => ({
      nodeInfo,
      addresses: [{ type: 'InternalIP', address: '172.18.0.3' }],
    })
    const ofVersion = (nodeInfo: object) =>
      JSON.stringify({
        kind: 'List',
        items: items.map((item: { kind: string }) =>
          item.kind === 'Node' ? { ...item, status: status(nodeInfo) } : item,
        ),
      })
    const asked = ['--objects', '-', '--node', 'k8s-guide-worker', '--mode', 'ipvs']
    const output = await run(
      asked,
      ofVersion({ kubeProxyVersion: 'v1.20.2', kubeletVersion: 'v1.30.3' }),
    )
    const kubelet = await run(asked, ofVersion({ kubeProxyVersion: '', kubeletVersion: 'v1.30.3' }))
    const newer = await run(asked, ofVersion({ kubeletVersion: 'v1.99.0' }))
    const silent = await run(asked, ofVersion({}))
    const filterChains = ({ stdout }: Run) => Object.keys(JSON.parse(stdout).iptables.filter)
    expect(filterChains(output)).not.toContain('KUBE-IPVS-FILTER')
    expect(filterChains(kubelet)).toContain('KUBE-IPVS-FILTER')
    expect(newer).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('"v1.99.0" is newer than the modelled versions'),
    })
    expect(silent).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('add --kube-proxy'),
    })
  })

  test('refuses truncated, empty, wrong and hostile input with a sentence', async () => {
    const inputs = [
      '',
      '{"kind":"List","items":[',
      'null',
      '[]',
      '"x"',
      '{"kind":"List","items":{}}',
      '{}',
    ]
    const deep = `${'{"kind":"List","items":['.repeat(5000)}${']}'.repeat(5000)}`
    for (const input of [...inputs, deep]) {
      const { code, stdout, stderr } = await run(['--objects', '-', ...about], input)
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
      expect(stderr).toMatch(/^ ✗ [^\n]+\n$/)
      if (input === '') expect(stderr).toContain('Standard input is empty')
      if (input === inputs[1]) expect(stderr).toContain('Standard input is not JSON')
    }
  })

  test('--diff exits with 0 if the node is equal, else with 1 and the differences', async () => {
    const folder = recordingPath('v1.30.3', 'ipvs', 'web-nodeport')
    const equal = await run(['--objects', objects('web-nodeport'), ...about, '--diff', folder])
    const different = await runScript(['--objects', objects('web-lb'), ...about, '--diff', folder])
    expect(equal).toMatchObject({
      code: 0,
      stdout: 'Equal: the node has exactly what kube-proxy programs.\n',
    })
    expect(different.code).toBe(1)
    expect(different.stdout).toContain('Missing (')
    expect(different.stdout).toContain('virtual server TCP 172.18.255.200:80 is missing')
    expect(different.stdout).toContain('Stale (')
  })

  test.each([
    ['userspace', 'v1.20.2'],
    ['nftables', 'v1.30.3'],
  ])('--diff compares with mode %s', async (mode, version) => {
    const input = ['--objects', objects('web-nodeport'), '--node', 'k8s-guide-worker']
    const folder = recordingPath(version, 'iptables', 'web-nodeport')
    const { stdout } = await runScript([
      ...input,
      '--mode',
      mode,
      '--kube-proxy',
      version,
      '--diff',
      folder,
    ])
    expect(stdout).toContain(`mode ${mode} does not use it`)
  })

  test('uses the objects and addresses of a capture', async () => {
    const capture = recordingPath('kind-v1.20.2', 'nodeport-loadbalancer')
    const source = ['--node', 'k8s-guide-worker2', '--mode', 'iptables', '--kube-proxy', '1.20']
    expect(await run([...source, '--diff', capture])).toMatchObject({ code: 0 })
    expect(await run([...source, '--diff', capture, '--family', 'ipv6'])).toMatchObject({ code: 0 })
  })

  test('names an invalid object and leaves it out', async () => {
    const { items } = JSON.parse(readFileSync(objects('web-clusterip'), 'utf8'))
    const spec = { clusterIP: 'x', ports: [{ port: -1 }] }
    const bad = { kind: 'Service', metadata: { namespace: 'a', name: '\u001b[31mb' }, spec }
    const input = JSON.stringify({ kind: 'List', items: [bad, 7, ...items] })
    const good = await run(['--objects', objects('web-clusterip'), ...about, '--as', 'json'])
    const mixed = await run(['--objects', '-', ...about, '--as', 'json'], input)
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
    const args = await runScript(['--mode', 'ipv', '--as', 'text'])
    const version = await run([
      '--objects',
      objects('empty'),
      ...about.slice(0, 4),
      '--kube-proxy',
      '1.5',
      '--as',
      'json',
    ])
    const missing = await run(['--objects', '/nowhere.json', ...about, '--as', 'json'])
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
