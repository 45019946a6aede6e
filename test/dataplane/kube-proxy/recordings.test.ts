import { afterAll, describe, expect, test } from 'vitest'
import { predict } from '../../../dataplane/predict.ts'
import { folders, NODE, objectsAt, recordedConfig, recordingPath, stateAt } from './recordings.ts'
import { strictDifference } from './strict-difference.ts'

const recordings = ['v1.20.2', 'v1.30.3'].flatMap((version) =>
  (['iptables', 'ipvs'] as const).flatMap((mode) =>
    folders(version, mode).map((scenario) => ({ version, mode, scenario })),
  ),
)
let equal = 0

describe('a prediction equals what the genuine kube-proxy programmed', () => {
  test.each(recordings)('$version $mode $scenario', ({ version, mode, scenario }) => {
    const recorded = stateAt(recordingPath(version, mode, scenario))
    const objects = objectsAt('objects', `${scenario}.json`)
    const predicted = predict(objects, { node: NODE, mode, version, config: recordedConfig() })
    expect(strictDifference(recorded, predicted)).toEqual([])
    equal++
    // The Pod range of the cluster can also be told from the nodes'.
    expect(strictDifference(recorded, predict(objects, { node: NODE, mode, version }))).toEqual([])
  })

  test('the comparison sees a rule, a member, a real server, an address that is not there, and order', () => {
    const state = () =>
      predict(objectsAt('objects', 'web-lb-local.json'), { node: NODE, mode: 'ipvs', version: '1.30' })
    const changes: ((changed: ReturnType<typeof state>) => unknown)[] = [
      (changed) => changed.iptables.get('nat')?.get('KUBE-POSTROUTING')?.rules.pop(),
      (changed) => changed.iptables.get('nat')?.get('KUBE-SERVICES')?.rules.reverse(),
      (changed) => changed.iptables.get('filter')?.get('INPUT')?.rules.reverse(),
      (changed) => changed.iptables.get('filter')?.delete('KUBE-FORWARD'),
      (changed) => changed.ipsets.get('KUBE-CLUSTER-IP')?.members.delete('10.96.0.1,tcp:443'),
      (changed) => changed.ipsets.delete('KUBE-6-CLUSTER-IP'),
      (changed) => changed.virtualServers[0]?.realServers.pop(),
      (changed) => changed.virtualServers.pop(),
      (changed) => changed.links[0]?.addresses.pop(),
    ]
    for (const change of changes) {
      const changed = state()
      change(changed)
      expect(strictDifference(state(), changed)).not.toEqual([])
    }
    expect(strictDifference(state(), state())).toEqual([])
  })

  test('there are recordings of both versions and modes', () => expect(recordings.length).toBeGreaterThanOrEqual(68))

  afterAll(() => console.log(`recordings equal: ${equal} of ${recordings.length}`))
})
