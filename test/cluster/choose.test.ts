import { describe, expect, test } from 'vitest'
import { chooseCluster, type ExistingClusters } from '../../cluster/doctor/choose.ts'
import type { Facts } from '../../cluster/doctor/facts.ts'
import { facts, kernel } from './able-machine.ts'

const kindOf = (change: Partial<Facts['kind']>) => ({
  ...facts,
  kind: { ...facts.kind, ...change },
})
const noIpvs = kindOf({ kernel: { ...kernel, ipvs: false, schedulers: [], ipset: false } })
const nothing: ExistingClusters = {
  name: 'ka',
  engine: 'docker',
  kindExists: false,
  kindWasMade: false,
}
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
      {
        ...noIpvs,
        embedded: {
          trouble: 'it needs Linux',
          cached: false,
          confinement: undefined,
          kernel: undefined,
        },
      },
      ipvsLab,
    )
    expect(choice).toEqual({
      refusal: expect.stringMatching(
        /^Lab 2 can't run here.*not on kind.*IPVS.*not on embedded \(it needs Linux\)/,
      ),
    })
  })

  test('is embedded, with a one-line note, where kind or its image is not available', () => {
    for (const change of [
      { binary: undefined, binaryTrouble: 'no such host' },
      { image: { reference: 'kindest/node:v1.34.11', isPresent: false, registry: false } },
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
