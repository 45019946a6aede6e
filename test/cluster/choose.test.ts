import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { chooseCluster, type ExistingClusters } from '../../cluster/doctor/choose.ts'
import type { Facts } from '../../cluster/doctor/facts.ts'
import { pinnedImage } from '../../cluster/kind/images.ts'
import { KindCluster } from '../../cluster/kind.ts'
import { kubeClient } from '../../cluster/kube-client.ts'
import { cachedKind } from '../../cluster/programs.ts'
import { selectCluster } from '../../cluster/select.ts'
import { kindFolder } from '../../host/layout.ts'
import { silent } from '../../host/progress.ts'
import { facts, kernel } from './able-machine.ts'
import { FakeEngine } from './fake-engine.ts'

const kindOf = (change: Partial<Facts['kind']>) => ({ ...facts, kind: { ...facts.kind, ...change } })
const noIpvs = kindOf({ kernel: { ...kernel, ipvs: false, schedulers: [], ipset: false } })
const nothing: ExistingClusters = { name: 'ka', engine: 'docker', kindExists: false, kindWasMade: false }
const kindThere: ExistingClusters = { ...nothing, kindExists: true, kindWasMade: true }
const ipvsLab = { number: 2, kernel: ['ipvs', 'ipset'] as const }
const plainLab = { number: 1, kernel: [] }

describe('the chosen cluster', () => {
  test('is the existing one, for every lab that can run on it', () => {
    expect(chooseCluster(kindThere, facts)).toEqual({ driver: 'kind' })
    expect(chooseCluster(kindThere, facts, ipvsLab)).toEqual({ driver: 'kind' })
    expect(chooseCluster(kindThere, noIpvs, plainLab)).toEqual({ driver: 'kind' })
  })

  test('a lab whose kernel kind does not have starts on embedded, with a one-line note', () => {
    expect(chooseCluster(kindThere, noIpvs, ipvsLab)).toEqual({
      driver: 'embedded',
      note: `Lab 2 can't run on the kind cluster "ka": its kernel has no IPVS and no ipset; it starts on an embedded one.`,
    })
    expect(chooseCluster(nothing, noIpvs, ipvsLab)).toEqual({
      driver: 'embedded',
      note: 'docker answers, but its kernel has no IPVS and no ipset: using the embedded cluster.',
    })
  })

  test('a lab that no cluster can run is refused with all reasons', () => {
    const choice = chooseCluster(
      kindThere,
      { ...noIpvs, embedded: { trouble: 'it needs Linux', cached: false, confinement: undefined, kernel: undefined } },
      ipvsLab,
    )
    expect(choice).toEqual({
      refusal: expect.stringMatching(/^Lab 2 can't run here.*not on kind.*IPVS.*not on embedded \(it needs Linux\)/),
    })
  })

  test('is embedded, with a one-line note, where kind or its image is not available', () => {
    for (const change of [
      { binary: undefined, binaryTrouble: 'no such host' },
      { image: { reference: 'kindest/node:v1.34.11', held: false, registry: false } },
    ])
      expect(chooseCluster(nothing, kindOf(change), plainLab)).toEqual({
        driver: 'embedded',
        note: expect.stringMatching(
          /^docker answers, but .* not (available|installed)[^\n]*: using the embedded cluster\.$/,
        ),
      })
  })

  test('is none while the engine of a kind cluster is down: the message tells how to start it', () => {
    const down = { ...kindThere, engine: undefined, kindExists: false }
    expect(chooseCluster(down, kindOf({ engine: undefined }), plainLab)).toEqual({
      refusal: expect.stringMatching(
        /^The kind cluster "ka" was created here, but no Docker.*systemctl start docker.*CLUSTER=embedded/,
      ),
    })
  })
})

const name = `fake-${process.pid}`
const tagged = pinnedImage().replace(/@.*/, '')
let engine: FakeEngine

beforeEach(async () => {
  engine = new FakeEngine()
  await engine.start()
  vi.stubEnv('PATH', `${join(engine.folder, 'bin')}:/usr/bin:/bin`)
  vi.stubEnv('IMAGE', '')
})
afterEach(() => {
  vi.unstubAllEnvs()
  vi.restoreAllMocks()
  engine.stop()
  rmSync(kindFolder(name), { recursive: true, force: true })
})

describe('CLUSTER=auto on this machine', () => {
  test('finds an image that is known by its tag alone, and makes the cluster from it', async () => {
    engine.write('images', `${tagged}\n`)
    const cluster = await selectCluster('auto', name)
    expect(cluster.driver).toBe('kind')
    await cluster.up(silent)
    expect(engine.read('log')).toMatch(new RegExp(`kind create .*--image ${tagged}$`, 'm'))
  })

  test.skipIf(existsSync(cachedKind()))(
    'takes embedded where kind can not be fetched, when a cluster is made',
    async () => {
      engine.write('images', `${pinnedImage()}\n`)
      engine.remove('bin/kind')
      vi.stubEnv('KIND_MIRROR', 'http://127.0.0.1:9/mirror')
      let said = ''
      vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
        said += text
        return true
      })
      expect((await selectCluster('auto', name, { creating: silent })).driver).toBe('embedded')
      expect(said).toMatch(/^ • docker answers, but kind v\S+ is not installed and could not be fetched: [^\n]+\n$/)
    },
  )

  test('names the engine of the kind cluster that was created here, for every command', async () => {
    const { kubeconfig } = new KindCluster(name)
    mkdirSync(dirname(kubeconfig), { recursive: true })
    writeFileSync(kubeconfig, engine.read('kubeconfig'))
    engine.remove('engine')
    await expect(selectCluster('auto', name)).rejects.toThrow(/^The kind cluster ".*" was created here, but no Docker/)
  })

  test('a lab that measures is refused before anything is started where its kernel can not run, on whichever cluster', async () => {
    // Without apt there is no User-Mode Linux.
    vi.stubEnv('PATH', join(engine.folder, 'bin'))
    const starting = (measures: boolean) => ({ lab: { number: 6, measures } })
    for (const wish of ['kind', 'embedded', 'auto'])
      await expect(selectCluster(wish, name, starting(true))).rejects.toThrow(
        /^Lab 6 can't run here, and nothing was started: it measures in User-Mode Linux, which can't run here \(.*"apt-get".*`make doctor`/,
      )
    expect((await selectCluster('kind', name, starting(false))).driver).toBe('kind')
    expect(engine.deeds()).toEqual([])
  })

  test('kind without an engine names the engine before anything is fetched', async () => {
    engine.remove('engine')
    engine.remove('bin/kind')
    vi.stubEnv('KIND_MIRROR', 'http://127.0.0.1:9/mirror')
    await expect(new KindCluster(name).up(silent)).rejects.toThrow(/^No Docker or Podman engine responds/)
  })
})

test('a cluster without a kubeconfig is not up, and the message names no file', async () => {
  await expect(kubeClient({ driver: 'kind', name: 'ka', kubeconfig: '/nonexistent/kubeconfig' })).rejects.toThrow(
    'The cluster "ka" is not up: run `make up`.',
  )
})
