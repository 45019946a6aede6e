import { spawnSync } from 'node:child_process'
import { describe, expect, test } from 'vitest'
import { placesFor } from '../../cluster/doctor/choose.ts'
import type { Facts, KindFacts, LabNeeds } from '../../cluster/doctor/facts.ts'
import { diagnose } from '../../cluster/doctor/judge.ts'
import {
  ipvsTrouble,
  type KernelFacts,
  kernelProbeCommand,
  readKernelProbe,
} from '../../cluster/doctor/kernel-probe.ts'
import type { DoctorResult } from '../../cluster/doctor/result.ts'
import {
  doctorRows,
  layoutRows,
  noneAble,
  type RequestedCluster,
} from '../../cluster/doctor/table.ts'
import { creationReason } from '../../cluster/kind/creation.ts'
import { type EngineFacts, readEngineInfo } from '../../cluster/kind/engine.ts'
import type { Confinement } from '../../embedded/index.ts'
import { engine, facts, gigabyte, kernel, kind } from './able-machine.ts'

const labs: LabNeeds[] = [
  { number: 1, kernel: [] },
  { number: 2, kernel: ['ipvs', 'ipset'] },
  { number: 7, kernel: ['nft'] },
]

const withKind = (change: Partial<KindFacts>): Facts => ({ ...facts, kind: { ...kind, ...change } })
const withKernel = (change: Partial<KernelFacts>, other: Partial<EngineFacts> = {}) =>
  withKind({ kernel: { ...kernel, ...change }, engine: { ...engine, ...other } })
const found = (results: DoctorResult[], what: string) =>
  results.find((result) => result.what === what)
const inKind = (judged: Facts, what: string) => found(diagnose(judged).kind, what)
/** The clusters that a lab can run on. */
const labOn = (judged: Facts, number: number) => {
  const lab = labs.find((one) => one.number === number) ?? { number, kernel: [] }
  const able = placesFor(lab, judged).filter(({ reason }) => reason === undefined)
  return [...new Set(able.map(({ name }) => (name === 'kind' ? 'kind' : 'embedded')))]
}

describe('a machine that has everything', () => {
  test('has no fault and no warning, and runs every lab on both, but for nftables on the embedded kernel', () => {
    const { machine, embedded, kind: kindly } = diagnose(facts)
    for (const result of [...machine, ...embedded, ...kindly])
      expect(result).toMatchObject({ severity: 'fine' })
    expect(labs.map(({ number }) => labOn(facts, number))).toEqual([
      ['embedded', 'kind'],
      ['embedded', 'kind'],
      ['kind'],
    ])
  })
})

describe('confinement of the embedded kernel', () => {
  test.each([
    [
      { files: 'landlock', signals: 'landlock', systemCalls: true },
      'fine',
      /^Landlock and seccomp/,
    ],
    [{ files: 'landlock', signals: 'landlock', systemCalls: false }, 'warning', /modes and times/],
    [
      { files: 'landlock', signals: undefined, systemCalls: true },
      'warning',
      /can end your other programs/,
    ],
    [
      { files: 'mounts', signals: 'namespace', systemCalls: true },
      'note',
      /can read every file that you can, and change none/,
    ],
    [
      { files: undefined, signals: undefined, systemCalls: true },
      'warning',
      /can change every file that you can/,
    ],
  ] as [Confinement, string, RegExp][])('%j is reported', (confinement, severity, detail) => {
    const result = found(
      diagnose({ ...facts, embedded: { ...facts.embedded, confinement } }).embedded,
      'confinement',
    )
    expect(result).toMatchObject({ severity, detail: expect.stringMatching(detail) })
    expect(result?.fix === undefined).toBe(severity === 'fine')
  })
})

const contains = (text: string) => expect.stringContaining(text)
const lacking = (extension: string) =>
  withKernel({ extensions: kernel.extensions.filter((one) => one !== extension) })
const reference = 'kindest/node:v1.34.11@sha256:44'
const image = (isPresent: boolean, registry: boolean) =>
  withKind({ image: { reference, isPresent, registry }, kernel: undefined })
const oldCgroups = { ...engine, cgroupVersion: '1' }
const noEngine = withKind({ engine: undefined, image: undefined, kernel: undefined })
const onHost = (change: Partial<Facts['host']>) => ({
  ...noEngine,
  host: { ...facts.host, ...change },
})

test.each<[string, Facts, what: string, result: object]>([
  [
    'a kernel without ip_vs',
    withKernel({ ipvs: false, schedulers: [] }),
    'IPVS',
    { severity: 'warning' },
  ],
  [
    'missing schedulers that kube-proxy requires',
    withKernel({ schedulers: ['rr', 'lc'] }),
    'IPVS',
    {
      severity: 'warning',
      detail: 'without the scheduler wrr and sh; available: rr, lc',
      fix: contains('modprobe -a ip_vs_wrr ip_vs_sh'),
    },
  ],
  [
    'the schedulers that it requires',
    withKernel({ schedulers: ['rr', 'wrr', 'sh'] }),
    'IPVS',
    { severity: 'fine' },
  ],
  ['no ipset', withKernel({ ipset: false }), 'ipset', { fix: contains('ip_set xt_set') }],
  ['no dummy device', withKernel({ dummy: false }), 'dummy device', { fix: contains('dummy') }],
  [
    'a kernel that lacks what every rule needs',
    lacking('statistic'),
    'iptables',
    { severity: 'fault', detail: contains('statistic') },
  ],
  [
    'no xt_recent',
    lacking('recent'),
    'xt_recent',
    { severity: 'warning', fix: contains('xt_recent') },
  ],
  [
    'one working back end',
    withKernel({ natLegacy: false }),
    'iptables NAT',
    { severity: 'fine', detail: contains('only nft works') },
  ],
  [
    'a node that would use another back end',
    withKernel({ natNft: false }),
    'iptables NAT',
    { severity: 'fault' },
  ],
  [
    'few inotify instances',
    withKernel({ inotifyInstances: 128 }),
    'inotify',
    { fix: 'sudo sysctl fs.inotify.max_user_instances=512' },
  ],
  [
    'few inotify instances in the machine of an engine',
    withKernel({ inotifyInstances: 128 }, { machine: 'colima-default' }),
    'inotify',
    { fix: 'colima ssh -- sudo sysctl fs.inotify.max_user_instances=512' },
  ],
  [
    'cgroup version 1 with an older node image',
    withKind({ engine: oldCgroups }),
    'cgroups',
    { severity: 'note' },
  ],
  [
    'cgroup version 1 with a new node image',
    withKind({
      engine: oldCgroups,
      image: { reference: 'kindest/node:v1.35.8', isPresent: true, registry: true },
    }),
    'cgroups',
    { severity: 'fault' },
  ],
  [
    'cgroup version 1 of a rootless engine',
    withKind({ engine: { ...oldCgroups, rootless: true } }),
    'cgroups',
    { severity: 'fault' },
  ],
  [
    'little memory',
    withKind({ engine: { ...engine, memory: 2 * gigabyte } }),
    'memory',
    { severity: 'warning', fix: contains('3.0 GB') },
  ],
  [
    'little disk',
    withKernel({ freeDisk: gigabyte }),
    'disk',
    { fix: contains('docker system prune') },
  ],
  [
    'no engine on Linux',
    noEngine,
    'engine',
    { severity: 'fault', fix: contains('systemctl start docker') },
  ],
  [
    'no engine on macOS',
    onHost({ platform: 'darwin' }),
    'engine',
    { fix: contains('colima start') },
  ],
  ['no engine in WSL', onHost({ wsl: true }), 'engine', { fix: contains('WSL integration') }],
  [
    'an image that cannot be fetched',
    image(false, false),
    'node image',
    { severity: 'fault', fix: contains('IMAGE=') },
  ],
  ['an image that can be fetched', image(false, true), 'node image', { severity: 'note' }],
  [
    'a kernel that cannot be probed yet',
    image(false, true),
    'kernel',
    { severity: 'note', fix: `docker pull ${reference}, then make doctor again` },
  ],
  [
    'containers that do not start',
    withKind({ kernel: undefined, kernelTrouble: 'unable to apply caps' }),
    'containers',
    { severity: 'fault', detail: contains('unable to apply caps') },
  ],
  [
    'another kind on PATH',
    withKind({ binary: { path: '/usr/bin/kind', release: 'v0.20.0' } }),
    'kind',
    { detail: 'v0.20.0 on PATH; v0.33.0 will be fetched once and its checksum verified' },
  ],
])('kind: %s is reported', (_fault, judged, what, result) => {
  expect(inKind(judged, what)).toMatchObject(result)
})

test('little memory of this machine is reported for the embedded cluster', () => {
  const tight = { ...facts, host: { ...facts.host, freeMemory: gigabyte } }
  expect(found(diagnose(tight).embedded, 'memory')?.severity).toBe('warning')
})

test.each<[Partial<EngineFacts>, RegExp]>([
  [{}, /sudo modprobe -a ip_vs .*linux-modules-extra-6\.1\.0-18-amd64/],
  [{ operatingSystem: 'Docker Desktop', kernel: '6.10.14-linuxkit' }, /update Docker Desktop/],
  [{ kernel: '5.15.167.4-microsoft-standard-WSL2' }, /wsl --update/],
  [{ machine: 'colima' }, /^colima ssh -- sudo modprobe -a ip_vs/],
  [{ name: 'podman', operatingSystem: 'fedora-coreos' }, /^podman machine ssh sudo modprobe/],
])('missing modules are loaded where the kernel runs: %j', (home, fix) => {
  expect(inKind(withKernel({ ipvs: false }, home), 'IPVS')?.fix).toMatch(fix)
})

const neither = {
  trouble: 'The embedded cluster needs Linux.',
  cached: false,
  confinement: undefined,
  kernel: undefined,
}

test.each<[string, Facts, lab: number, places: string[]]>([
  [
    'a kernel without ip_vs does not prevent a lab that needs none',
    withKernel({ ipvs: false }),
    1,
    ['embedded', 'kind'],
  ],
  ['a kernel without ip_vs', withKernel({ ipvs: false }), 2, ['embedded']],
  ['a kernel without ipset', withKernel({ ipset: false }), 2, ['embedded']],
  ['a kernel that lacks what every rule needs', lacking('statistic'), 1, ['embedded']],
  [
    'no xt_recent does not prevent a lab without session affinity',
    lacking('recent'),
    1,
    ['embedded', 'kind'],
  ],
  ['no NAT in nf_tables anywhere', withKernel({ natNft: false, nodeBackend: 'legacy' }), 7, []],
  ['no engine', noEngine, 2, ['embedded']],
  [
    'an image that will be fetched does not prevent a lab',
    image(false, true),
    2,
    ['embedded', 'kind'],
  ],
  ['neither cluster can run', { ...noEngine, embedded: neither }, 1, []],
])('where labs can run: %s', (_fault, judged, lab, places) => {
  expect(labOn(judged, lab)).toEqual(places)
})

describe('the table', () => {
  const embedded = { ...facts.embedded, hostKernel: { kernel: { ...kernel, ipvs: false } } }
  const noKind = { ...kind, engine: undefined, image: undefined, kernel: undefined }
  const here: Facts = { ...facts, embedded, kind: noKind }
  const course: LabNeeds[] = [
    { number: 1, kernel: [] },
    { number: 2, kernel: ['ipvs', 'ipset'] },
    { number: 6, kernel: [], measures: true },
    { number: 7, kernel: [], kernelOfSteps: ['nft'] },
  ]
  const lab = (judged: Facts, number: number, requested?: RequestedCluster) =>
    doctorRows(judged, course, requested).rows.find(({ of }) => of === `lab ${number}`)

  test('names for each lab where it runs now, and why not elsewhere', () => {
    expect(lab(here, 1)).toMatchObject({
      what: 'KERNEL=uml',
      severity: 'fine',
      detail: 'or KERNEL=host',
    })
    expect(lab(here, 2)).toMatchObject({
      what: 'KERNEL=uml',
      detail: 'KERNEL=host: its kernel has no IPVS',
    })
    expect(lab(here, 7)).toMatchObject({
      what: 'KERNEL=host',
      detail: 'or KERNEL=uml without the steps that need NAT in nf_tables',
    })
    expect(lab(facts, 1)).toMatchObject({ what: 'kind', detail: 'or KERNEL=uml' })
  })

  test('follows CLUSTER and KERNEL, also where they can not be followed', () => {
    expect(lab(facts, 1, { cluster: 'embedded' })).toMatchObject({
      what: 'KERNEL=uml',
      detail: 'or kind',
    })
    expect(lab(here, 2, { kernel: 'host' })).toMatchObject({
      severity: 'fault',
      what: 'KERNEL=host',
      detail: 'its kernel has no IPVS; KERNEL=uml can run it',
    })
    const forbidden = {
      ...here,
      embedded: { ...embedded, hostKernel: { trouble: { detail: 'AppArmor forbids it' } } },
    }
    expect(lab(forbidden, 1, { kernel: 'host' })).toMatchObject({
      severity: 'fault',
      what: 'KERNEL=host',
      detail: "can't be used, see above; KERNEL=uml can run it",
    })
    expect(lab(forbidden, 1)).toMatchObject({ what: 'KERNEL=uml', severity: 'fine', detail: '' })
  })

  test('names the context that CLUSTER selects, but for a lab that measures in User-Mode Linux where that can not run', () => {
    const requested = { cluster: 'context:work' }
    const context = {
      what: 'context',
      severity: 'note',
      detail: '"work", which is not examined here',
    }
    expect(lab(here, 2, requested)).toMatchObject(context)
    expect(lab(here, 6, requested)).toMatchObject(context)
    const arm: Facts = {
      ...here,
      embedded: { ...embedded, uml: 'User-Mode Linux is built for x86-64 only' },
    }
    expect(lab(arm, 2, requested)).toMatchObject(context)
    expect(lab(arm, 6, requested)).toMatchObject({ severity: 'fault', what: 'nowhere yet' })
  })

  test('on a processor without User-Mode Linux, labs that need IPVS run nowhere', () => {
    const arm: Facts = {
      ...here,
      embedded: { ...embedded, uml: 'User-Mode Linux is built for x86-64 only' },
    }
    expect(lab(arm, 1)).toMatchObject({ what: 'KERNEL=host', severity: 'fine' })
    expect(lab(arm, 2)).toMatchObject({ severity: 'fault', what: 'nowhere yet' })
    expect(lab(arm, 2)?.detail).toBe(
      "KERNEL=host: its kernel has no IPVS; KERNEL=uml and kind can't be used, see above",
    )
    expect(doctorRows(arm, course).able).toEqual([1, 7])
    expect(doctorRows(here, course).able).toEqual([1, 2, 6, 7])
    const neither = {
      ...arm,
      embedded: { ...arm.embedded, hostKernel: { trouble: { detail: 'no namespaces' } } },
    }
    expect(doctorRows(neither, course).able).toEqual([])
    expect(found(diagnose(neither).embedded, 'KERNEL=host')).toMatchObject({ severity: 'fault' })
  })

  test('a lab that measures in User-Mode Linux runs nowhere without it, on whichever cluster', () => {
    const uml = 'User-Mode Linux is built for x86-64 only'
    const nowhere = {
      severity: 'fault',
      what: 'nowhere yet',
      detail: "it measures in User-Mode Linux, which can't run here",
    }
    // Before the first `make up`, after it, and where Docker runs.
    for (const judged of [
      { ...here, embedded: { ...embedded, uml, hostKernel: {} } },
      { ...here, embedded: { ...embedded, uml } },
      { ...facts, embedded: { ...embedded, uml } },
      { ...facts, embedded: { ...embedded, trouble: 'The embedded cluster needs Linux.' } },
    ])
      expect(lab(judged, 6)).toMatchObject(nowhere)
    expect(lab(here, 6)).toMatchObject({ what: 'KERNEL=uml', severity: 'fine' })
  })

  test('a feature of a kernel that is not known yet is not promised', () => {
    const fresh = {
      ...here,
      embedded: { ...embedded, uml: 'User-Mode Linux is built for x86-64 only', hostKernel: {} },
    }
    expect(lab(fresh, 1)).toMatchObject({ what: 'KERNEL=host', severity: 'fine' })
    expect(lab(fresh, 2)).toMatchObject({
      what: 'KERNEL=host',
      severity: 'note',
      detail: 'if its kernel has IPVS and ipset, which is not known yet',
    })
    const noImage = withKind({ kernel: undefined })
    expect(lab(noImage, 2)).toMatchObject({
      what: 'kind',
      severity: 'note',
      detail: expect.stringMatching(/^if its kernel has IPVS and ipset/),
    })
  })

  test.each([60, 80, 200])(
    'is plain text in a terminal of %i columns, one line above another, and loses no word',
    (width) => {
      const { rows } = doctorRows(
        { ...here, kind: { ...kind, kernel: { ...kernel, ipvs: false, inotifyInstances: 1 } } },
        course,
      )
      const lines = layoutRows(rows, undefined, width)
      expect(lines.filter((line) => line.length > Math.min(width, 80))).toEqual([])
      const words = lines.join(' ').split(/\s+/)
      for (const { what, detail, fix = '' } of rows)
        for (const word of `${what} ${detail} ${fix}`.split(/\s+/).filter(Boolean))
          expect(words).toContain(word)
      const [head = ''] = lines
      const column = head.indexOf('result')
      for (const line of lines.slice(1).filter((one) => /^ \S/.test(one)))
        expect(line.slice(column - 1, column)).toMatch(/^ ?$/)
    },
  )
})

describe('IPVS of this machine', () => {
  const without = { ...kernel, ipvs: false }
  test.each([
    ['6.12.0', false, { detail: 'it was built without ip_vs' }],
    [
      '6.8.0-45-generic',
      true,
      { detail: "up to Linux 6.10 ip_vs can't be used in user namespaces" },
    ],
    ['5.15.0', true, { detail: "up to Linux 6.10 ip_vs can't be used in user namespaces" }],
    ['6.11.0', true, { fix: expect.stringMatching(/^sudo modprobe -a ip_vs .*dummy$/) }],
    ['7.0', true, { fix: expect.stringContaining('dummy') }],
  ] as const)('Linux %s, with the module: %s', (release, hasModule, result) => {
    expect(ipvsTrouble({ ...without, release }, hasModule)).toMatchObject(result)
  })

  test('works where a virtual server could be made, and the device for its addresses', () => {
    expect(ipvsTrouble({ ...kernel, release: '6.11.0' }, true)).toBeUndefined()
    expect(ipvsTrouble({ ...kernel, release: '6.11.0', dummy: false }, true)?.fix).toContain(
      'dummy',
    )
  })

  test('is reported with what fixes it', () => {
    const trouble = ipvsTrouble({ ...without, release: '6.12.1' }, true)
    const judged = {
      ...facts,
      embedded: { ...facts.embedded, hostKernel: { kernel: without, ipvsTrouble: trouble } },
    }
    expect(found(diagnose(judged).embedded, 'KERNEL=host')).toMatchObject({
      detail: "this machine's own, 6.1.0-18-amd64, without IPVS: its modules are not loaded",
      fix: expect.stringContaining('modprobe'),
    })
  })
})

describe('what engines and kernels say', () => {
  test('docker and podman are read into the same facts', () => {
    const docker = {
      ServerVersion: '28.2.2',
      OperatingSystem: 'Docker Desktop',
      Name: 'docker-desktop',
      KernelVersion: '6.10-linuxkit',
      CgroupVersion: '2',
      SecurityOptions: ['name=seccomp,profile=builtin', 'name=rootless'],
      MemTotal: 8 * gigabyte,
      NCPU: 8,
    }
    expect(readEngineInfo('docker', docker)).toEqual({
      name: 'docker',
      version: '28.2.2',
      operatingSystem: 'Docker Desktop',
      machine: 'docker-desktop',
      kernel: '6.10-linuxkit',
      cgroupVersion: '2',
      rootless: true,
      memory: 8 * gigabyte,
      cpus: 8,
    })
    const podman = {
      host: {
        kernel: '6.8',
        hostname: 'localhost',
        cgroupVersion: 'v2',
        memTotal: 4 * gigabyte,
        cpus: 2,
        distribution: { distribution: 'fedora' },
        security: { rootless: true },
      },
      version: { Version: '5.2' },
    }
    expect(readEngineInfo('podman', podman)).toEqual({
      name: 'podman',
      version: '5.2',
      operatingSystem: 'fedora',
      machine: 'localhost',
      kernel: '6.8',
      cgroupVersion: '2',
      rootless: true,
      memory: 4 * gigabyte,
      cpus: 2,
    })
    expect(readEngineInfo('podman', {})).toMatchObject({ version: '', memory: 0 })
  })

  test('the probe is one shell script whose answers are read back, and nothing is read from half of them', () => {
    const syntax = spawnSync('sh', ['-n', '-c', kernelProbeCommand[2] ?? ''], { encoding: 'utf8' })
    expect(syntax.stderr).toBe('')
    const output =
      'release=6.1\nipvs=yes\nscheduler=rr\nscheduler=sh\nextension=recent\nnat=nft\nbackend=nft\ninotify-instances=128\ndisk=1024\n'
    expect(readKernelProbe(output)).toBeUndefined()
    expect(readKernelProbe(`${output}end=yes\n`)).toEqual({
      release: '6.1',
      ipvs: true,
      schedulers: ['rr', 'sh'],
      ipset: false,
      dummy: false,
      extensions: ['recent'],
      natLegacy: false,
      natNft: true,
      nodeBackend: 'nft',
      inotifyInstances: 128,
      inotifyWatches: 0,
      freeDisk: 1024 ** 2,
    })
    // Without its module no scheduler can be used.
    expect(readKernelProbe('release=6.8\nipvs=yes\nend=yes\n')?.ipvs).toBe(false)
  })
})

test('before the packages are there, a kernel without files of ip_vs is not named for labs that need it', () => {
  const judged: Facts = {
    ...facts,
    embedded: { ...facts.embedded, hostKernel: { lacks: ['ipvs'] } },
  }
  const onHost = (number: number) =>
    placesFor({ number, kernel: number === 2 ? ['ipvs', 'ipset'] : [] }, judged).find(
      ({ name }) => name === 'KERNEL=host',
    )
  expect(onHost(2)?.reason).toBe('its kernel has no IPVS')
  expect(onHost(1)?.reason).toBeUndefined()
  expect(found(diagnose(judged).embedded, 'KERNEL=host')?.detail).toMatch(/but it has no IPVS/)
})

test('where only the requested cluster can run no lab, the other one is named', () => {
  expect(noneAble({ cluster: 'kind' }, [1, 2])).toBe(
    'No lab can run with CLUSTER="kind" yet: fix the lines marked with ✗ above, or leave it out: make lab-1',
  )
  expect(noneAble({ cluster: 'kind' }, [])).toMatch(/^No lab can run here yet/)
  expect(noneAble({}, [1])).toMatch(/^No lab can run here yet/)
})

test("a creation's reason is that of kubeadm, without the command that kind ran", () => {
  const stderr = `Creating cluster "x" ...
ERROR: failed to create cluster: failed to init node with kubeadm: command "docker exec --privileged x-control-plane kubeadm init --config=/kind/kubeadm.conf --v=6" failed with error: exit status 1
Command Output: I0101 00:00:00.000000 140 initconfiguration.go:261] loading
[kubelet-check] The kubelet is not healthy after 4m0.000443s
error execution phase wait-control-plane: failed while waiting for the kubelet to start
To see the stack trace of this error execute with --v=5 or higher`
  expect(creationReason(stderr)).toBe(
    'ERROR: failed to create cluster: failed to init node with kubeadm: error execution phase wait-control-plane: failed while waiting for the kubelet to start',
  )
  expect(creationReason('no space left')).toBe('no space left')
})
