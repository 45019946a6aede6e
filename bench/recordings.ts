import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CAPTURE_FILES, readCapturedNode } from '../dataplane/capture.ts'
import { compareNodeState } from '../dataplane/compare.ts'
import { defaultConfig } from '../dataplane/kube-proxy/config.ts'
import { readObjects } from '../dataplane/objects.ts'
import { predict } from '../dataplane/predict.ts'
import { projectRoot } from '../host/layout.ts'

const root = join(projectRoot, 'data/recordings')
const node = 'k8s-guide-worker'
const config = { ...defaultConfig(), clusterCIDR: '10.244.0.0/16' }

/** How many recordings of genuine kube-proxies (version/mode/scenario) equal the prediction, including the order. */
export function countEqualRecordings(): { equal: number; total: number } {
  let equal = 0
  let total = 0
  for (const version of readdirSync(root).filter((name) => name.startsWith('v')))
    for (const mode of ['iptables', 'ipvs'] as const)
      for (const scenario of readdirSync(join(root, version, mode))) {
        const folder = join(root, version, mode, scenario)
        const present = CAPTURE_FILES.filter((file) => existsSync(join(folder, file)))
        const files = new Map(present.map((file) => [file, readFileSync(join(folder, file), 'utf8')]))
        const { objects } = readObjects(JSON.parse(readFileSync(join(root, 'objects', `${scenario}.json`), 'utf8')))
        const predicted = predict(objects, { node, mode, version, config })
        const findings = compareNodeState(predicted, readCapturedNode(files).state, { mode, untouched: true })
        total++
        if (findings.length === 0) equal++
      }
  return { equal, total }
}
