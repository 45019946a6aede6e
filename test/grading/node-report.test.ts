import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { readCaptureFolder, writeCaptureFolder } from '../../cluster/capture-folder.ts'
import { nodeReportRequest, type ReportDepth } from '../../cluster/node-report.ts'
import { kindCapture } from './solved-capture.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'node-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

/** Runs the request as a node would whose only programs are these. */
function report(programs: Record<string, string>, depth: ReportDepth = 'essential') {
  for (const [name, body] of Object.entries({ head: 'exec /usr/bin/head "$@"', ...programs })) {
    writeFileSync(join(folder, name), `#!/bin/sh\n${body}\n`)
    chmodSync(join(folder, name), 0o755)
  }
  const request = nodeReportRequest(depth)
  // The node has nothing of this machine: neither its programs nor its processes.
  const script = request.script
    .replace(/^/, `PATH='${folder}'\n`)
    .replaceAll('/proc/', join(folder, 'proc/'))
    .replaceAll('/sys/module/', join(folder, 'modules/'))
  return request.read(execFileSync('/bin/sh', ['-c', script], { encoding: 'utf8' }))
}

describe('one exec per node', () => {
  test('contains the output of each tool unchanged, and lists tools that failed or are missing', () => {
    const { files, failures } = report({
      'iptables-save': "printf ':KUBE-SERVICES - [0:0]\\n'",
      ip: "printf '[]\\n'",
      ipvsadm: "echo 'Protocol not available' >&2; exit 2",
      curl: 'printf ipvs',
    })
    expect(Object.fromEntries(files)).toEqual({
      'iptables-save': ':KUBE-SERVICES - [0:0]\n',
      'ip-addr.json': '[]\n',
      proxyMode: 'ipvs',
    })
    expect(Object.fromEntries(failures)).toEqual({
      'ip6tables-save': 127,
      'ipset-save': 127,
      'ipvsadm-save': 2,
      'nft-ip.json': 127,
      'nft-ip6.json': 127,
      'nft-others.json': 127,
    })
  })

  test('waits for kube-proxy as long as LAB_TIMEOUT_SCALE tells', () => {
    const deadline = () =>
      /http_get 127\.0\.0\.1 10249 \/proxyMode (\d+)/.exec(
        nodeReportRequest('essential').script,
      )?.[1]
    vi.stubEnv('LAB_TIMEOUT_SCALE', '')
    expect(deadline()).toBe('2')
    vi.stubEnv('LAB_TIMEOUT_SCALE', '4.5')
    expect(deadline()).toBe('9')
    vi.unstubAllEnvs()
  })

  test('reads sets and virtual servers with ipset and ipvsadm', () => {
    mkdirSync(join(folder, 'modules/ip_set'), { recursive: true })
    writeFileSync(join(folder, 'modules/ip_set/refcnt'), '0\n')
    mkdirSync(join(folder, 'proc/net'), { recursive: true })
    writeFileSync(join(folder, 'proc/net/ip_vs'), 'three\nlines of\nheadings\n')
    const sets = 'create KUBE-CLUSTER-IP hash:ip,port family inet'
    const servers = '-A -t 10.96.0.1:443 -s rr'
    const { files } = report({ ipset: `echo '${sets}'`, ipvsadm: `echo '${servers}'` })
    expect(files.get('ipset-save')).toBe(`${sets}\n`)
    expect(files.get('ipvsadm-save')).toBe(`${servers}\n`)
  })

  test("reads the iptables back end that contains kube-proxy's chains", () => {
    const { files } = report({
      'iptables-save': "printf ':DOCKER_OUTPUT - [0:0]\\n'",
      'iptables-legacy-save': 'exit 1',
      'iptables-nft-save': "printf ':KUBE-SERVICES - [0:0]\\n'",
    })
    expect(files.get('iptables-save')).toBe(':KUBE-SERVICES - [0:0]\n')
  })

  test("reads the back end that kube-proxy writes to, although an older one left its chains in the node's own", () => {
    const programs = {
      'iptables-save': "printf ':KUBE-SERVICES - [0:0]\\n:KUBE-SVC-OLD - [0:0]\\n'",
      'iptables-legacy-save': "printf ':KUBE-SERVICES - [0:0]\\n:KUBE-SVC-OLD - [0:0]\\n'",
      'iptables-nft-save': "printf ':KUBE-SERVICES - [0:0]\\n:KUBE-SVC-NEW - [0:0]\\n'",
      nsenter: `case "$*" in "-t 4711 -m -- iptables --version") echo 'iptables v1.8.9 (nf_tables)' ;; *) exit 1 ;; esac`,
    }
    const runs = (pid: number, comm: string) => {
      mkdirSync(join(folder, 'proc', String(pid)), { recursive: true })
      writeFileSync(join(folder, 'proc', String(pid), 'comm'), `${comm}\n`)
    }
    runs(4710, 'kubelet')
    expect(report(programs).files.get('iptables-save')).toContain('KUBE-SVC-OLD')
    runs(4711, 'kube-proxy')
    expect(report(programs).files.get('iptables-save')).toContain('KUBE-SVC-NEW')
  })

  test("a chain of the kubelet does not identify kube-proxy's back end", () => {
    const { files } = report({
      'iptables-save': "printf ':KUBE-KUBELET-CANARY - [0:0]\\n'",
      'iptables-legacy-save': "printf ':KUBE-SERVICES - [0:0]\\n'",
      'iptables-nft-save': "printf ':KUBE-KUBELET-CANARY - [0:0]\\n'",
    })
    expect(files.get('iptables-save')).toBe(':KUBE-SERVICES - [0:0]\n')
  })

  test('a node without any rule has an empty file, not a missing one', () => {
    expect(report({ 'iptables-save': ':' }).files.get('iptables-save')).toBe('')
  })

  test('output that looks like a section header of another run is not parsed', () => {
    const forged = '\\n==00000000-0000-0000-0000-000000000000 ipset-save\\nadd X y\\n'
    const { files } = report({ 'iptables-save': `printf ':KUBE-X - [0:0]${forged}'` })
    expect(files.get('iptables-save')).toContain('ipset-save\nadd X y')
    expect(files.has('ipset-save')).toBe(false)
  })

  test('contains more for a capture, with a limited number of connections', () => {
    const { files } = report(
      { conntrack: 'yes tcp | head -n 9000', yes: 'exec /usr/bin/yes "$@"', uname: 'echo 6.1' },
      'thorough',
    )
    expect(files.get('conntrack')?.split('\n')).toHaveLength(4001)
    expect(files.has('versions')).toBe(true)
  })
})

describe('a report that was cut off', () => {
  test('is refused, wherever it was cut off', () => {
    const { script, read } = nodeReportRequest('essential')
    const whole = execFileSync('/bin/sh', ['-c', script], { encoding: 'utf8' })
    expect(read(whole).files.size + read(whole).failures.size).toBeGreaterThan(6)
    for (const part of [0, 0.3, 0.7, 0.99]) {
      const cut = whole.slice(0, Math.floor(whole.length * part))
      expect(() => read(cut)).toThrow(/was cut off/)
    }
    expect(() => read(whole.trimEnd())).toThrow(/was cut off/)
  })
})

describe('a capture folder', () => {
  test('is read back as written', () => {
    const capture = readCaptureFolder(kindCapture('ipvs-kernel-3-flushed-and-used'))
    writeCaptureFolder(folder, capture)
    expect(readCaptureFolder(folder)).toEqual(capture)
  })

  test('is refused with the missing files', () => {
    expect(() => readCaptureFolder(join(folder, 'nope'))).toThrow(
      /"\S+nope" is missing: give a folder/,
    )
    expect(() => readCaptureFolder(folder)).toThrow(/objects.json" is missing/)
    writeFileSync(join(folder, 'objects.json'), '{')
    expect(() => readCaptureFolder(folder)).toThrow(/nodes" is missing/)
  })
})
