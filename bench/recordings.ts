import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { compareNodeState } from '../dataplane/compare.ts'
import { defaultConfig } from '../dataplane/kube-proxy/config.ts'
import { predict } from '../dataplane/predict.ts'
import { projectRoot } from '../host/layout.ts'
import { readRecording } from '../slides/build/recording.ts'

const root = join(projectRoot, 'data/recordings')
const config = { ...defaultConfig(), clusterCIDR: '10.244.0.0/16' }

/** How many recordings of genuine kube-proxies (version/mode/scenario) equal the prediction, including the order. */
export function countEqualRecordings(): { equal: number; total: number } {
  const versions = readdirSync(root).filter((name) => name.startsWith('v'))
  const results = versions.flatMap((version) =>
    (['iptables', 'ipvs'] as const).flatMap((mode) =>
      readdirSync(join(root, version, mode)).map((scenario) => {
        const { node, state, objects } = readRecording(`${version}/${mode}/${scenario}`)
        const predicted = predict(objects, { node, mode, version, config })
        return compareNodeState(predicted, state, { mode, untouched: true }).length === 0
      }),
    ),
  )
  return { equal: results.filter((isEqual) => isEqual).length, total: results.length }
}
