import { afterAll, describe, expect, test } from 'vitest'
import { predict } from '../../dataplane/predict.ts'
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
  })

  test('there are recordings of both versions and modes', () => expect(recordings.length).toBeGreaterThanOrEqual(68))

  afterAll(() => console.log(`recordings equal: ${equal} of ${recordings.length}`))
})
