import { basename } from 'node:path'
import type { ClusterAccess } from '../../cluster/api-client.ts'
import type { Cluster } from '../../cluster/driver.ts'
import { birthMarks, clusterIdentity } from '../../grading/api-object.ts'
import { expectedWords, LEARNER_NAME, seedOf } from '../../grading/class-key.ts'
import { loadSpec } from '../../grading/grader.ts'
import { judge } from '../../grading/judge.ts'
import { readLab } from '../../grading/lab-definition.ts'
import { openCluster } from '../../grading/live-cluster.ts'
import { reportOf } from '../../grading/report.ts'
import { learnerIn } from '../../grading/variant.ts'
import { PlainFileError, readPlainFile } from '../../host/plain-file.ts'
import { plainText, shortened } from '../../host/plain-text.ts'
import { silent } from '../../host/progress.ts'
import { Refusal, refuse } from '../submission/untrusted-text.ts'
import { type ClassSecrets, gradedReport, type Judged, wordFlags } from './judge-file.ts'
import type { LiveTask } from './judge-pool.ts'
import { clusterAccess } from './kubeconfig-safety.ts'

const KUBECONFIG_BYTES = 2 ** 20

/** Opens a learner's cluster; tests replace it. */
export type OpenLive = (name: string, access: ClusterAccess) => Promise<Cluster>

/** Loads the API client, which can take longer than grading a cluster. */
export const loadClient = () => import('../../cluster/context.ts')

const openByContext: OpenLive = async (name, access) => {
  const { ContextCluster } = await loadClient()
  return ContextCluster.ofLearner(name, access)
}

/** Grades a learner's running cluster, real requests included. Never throws: errors of the cluster are in the result. */
export async function judgeLive(
  { kubeconfig, lab }: LiveTask,
  open = openByContext,
  { key, word }: ClassSecrets = {},
): Promise<Judged> {
  const file = shortened(plainText(basename(kubeconfig)), 100)
  try {
    const learner = basename(kubeconfig).replace(/\.(?:ya?ml|conf|config|kubeconfig)$/i, '')
    if (!LEARNER_NAME.test(learner)) refuse('Its name must be the learner’s: letters, digits, dots and dashes.')
    const access = clusterAccess(readPlainFile(kubeconfig, KUBECONFIG_BYTES))
    const spec = await loadSpec(readLab(lab))
    const cluster = await open(learner, access)
    await cluster.up(silent)
    const source = await openCluster(cluster, { keepMoments: false })
    const began = performance.now()
    const { outcomes, snapshot } = await judge(spec, source)
    const request = { lab, source: { kind: 'cluster', driver: cluster.driver, name: learner } as const }
    const report = reportOf(spec.lab, request, outcomes, {
      snapshot,
      seconds: (performance.now() - began) / 1000,
    })
    const marks = birthMarks(snapshot.capture.objects.items)
    const identity = clusterIdentity(marks)
    const words = expectedWords(word, key, learner)
    const ofWord = words.length > 0 ? wordFlags([{ id: 'now', capture: snapshot.capture }], words) : []
    const dealtTo = learnerIn(snapshot.capture.objects.items)
    return {
      file,
      seed: seedOf(learner),
      wordFlags: ofWord,
      prints: { clusters: identity ? [identity] : [], objects: [], files: [], learners: dealtTo ? [dealtTo] : [] },
      graded: { ...gradedReport(report, { learner, file }), cluster: { driver: cluster.driver, identity } },
    }
  } catch (error) {
    if (error instanceof Refusal) return { file, refused: error.message }
    if (error instanceof PlainFileError) return { file, refused: plainText(error.message) }
    const reason = (error instanceof Error ? error.message : String(error)).split('\n')[0]
    return { file, refused: `The cluster could not be graded (${shortened(plainText(reason ?? ''), 300)}).` }
  }
}
