import { describe, expect, test } from 'vitest'
import { compareNodeState } from '../../../dataplane/compare.ts'
import { predict } from '../../../dataplane/predict.ts'
import { NODE, objectsAt, recordedConfig, recordingPath, stateAt } from '../recordings.ts'
import { strictDifference } from './strict-difference.ts'

const stateOf = (step: string) => stateAt(recordingPath('transitions', step))

function predictAt(step: string, mode: 'iptables' | 'ipvs') {
  const [version = ''] = step.split('/')
  return predict(objectsAt('transitions', step, 'objects.json'), {
    node: NODE,
    mode,
    version,
    config: recordedConfig(),
  })
}

describe('a node that is switched between modes in place', () => {
  test.each(['v1.20.2', 'v1.30.3'])(
    '%s starts with the predicted state, apart from the chain of another agent',
    (version) => {
      const ignore = (_table: string, chain: string) => chain === 'KIND-MASQ-AGENT'
      const step = `${version}/1-iptables`
      expect(strictDifference(stateOf(step), predictAt(step, 'iptables'), { ignore })).toEqual([])
    },
  )

  // The other recorded switches were read before the first sync was complete.
  test.each([
    ['v1.20.2/2-iptables-then-ipvs', 'ipvs'],
    ['v1.20.2/3-ipvs-then-iptables', 'iptables'],
    ['v1.30.3/3-ipvs-then-iptables', 'iptables'],
  ] as const)('%s: has everything that is predicted, and only leftovers besides', (step, mode) => {
    const findings = compareNodeState(predictAt(step, mode), stateOf(step), { mode })
    expect(new Set(findings.map(({ kind }) => kind))).toEqual(new Set(['stale']))
  })
})
