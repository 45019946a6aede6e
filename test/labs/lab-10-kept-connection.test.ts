// Step weight of lab 10, typed as in its text: its connection must not lead to a Pod that ends.
// Where kube-proxy had not followed the rollout yet, in 3 of 8 runs on two busy cores, it led to
// one of those that were replaced, and the text deleted that one.

import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Cluster } from '../../cluster/driver.ts'
import { selectCluster } from '../../cluster/select.ts'
import { readLabText } from '../../course/lab-text.ts'
import { FenceShell, learnerEnvironment } from '../../course/lint/fence-shell.ts'
import { readLab } from '../../grading/lab-definition.ts'
import { projectRoot } from '../../host/layout.ts'
import { silent } from '../../host/progress.ts'
import { timeoutScale } from '../../host/wait.ts'

const NAME = 'k8s-guide-weight'
const MANIFESTS = 'labs/10-connections/manifests'
const SECONDS = 240 * timeoutScale()

const fencesOf = (step: string) =>
  readLabText(readLab(10).folder).fences.filter((fence) => fence.step === step)

let cluster: Cluster
let shell: FenceShell

async function type(commands: string): Promise<string> {
  const { exitCode, output } = await shell.type({ commands, timeout: SECONDS, line: 0 })
  expect(exitCode, output).toBe(0)
  return output
}

beforeAll(async () => {
  cluster = await selectCluster('embedded', NAME)
  await cluster.up(silent)
  shell = new FenceShell(projectRoot, learnerEnvironment(NAME))
  await type('eval "$(make -s env)"')
  for (const { commands } of fencesOf('shop')) await type(commands)
  await type(`kubectl patch deployment shop --patch-file ${MANIFESTS}/careful.yaml
kubectl rollout status deployment/shop --timeout=90s
kubectl patch service shop --type merge -p '{"spec":{"sessionAffinity":"ClientIP","sessionAffinityConfig":{"clientIP":{"timeoutSeconds":3}}}}'`)
}, SECONDS * 1000)

afterAll(async () => {
  shell?.end()
  await cluster?.down(silent)
})

test(
  'no Pod of shop ends when the connection is opened, and the deleted one answers it afterwards',
  async () => {
    const lines = fencesOf('weight')[0]?.commands.split('\n') ?? []
    const opens = lines.findIndex((line) => line.includes('weigh[1-1800]'))
    await type(lines.slice(0, opens).join('\n'))
    expect(
      await type(
        "kubectl get pods -l app=shop -o jsonpath='{.items[*].metadata.deletionTimestamp}'",
      ),
    ).toBe('')
    await type(lines.slice(opens).join('\n'))
    expect(
      await type('kubectl get pod $KEPT -o jsonpath={.metadata.deletionGracePeriodSeconds}'),
    ).toBe('330')
    const before = await type('kubectl logs $KEPT | grep -c weigh')
    await type(
      `for N in $(seq 200); do AFTER=$(kubectl logs $KEPT | grep -c weigh); [ $AFTER -gt ${before} ] && break; done; [ $AFTER -gt ${before} ]`,
    )
  },
  SECONDS * 1000,
)
