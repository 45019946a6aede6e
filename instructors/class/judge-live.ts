import { basename } from 'node:path'
import { ContextCluster } from '../../cluster/context.ts'
import { LEARNER_NAME, seedOf } from '../../grading/class-key.ts'
import { loadSpec } from '../../grading/grader.ts'
import { judge } from '../../grading/judge.ts'
import { readLab } from '../../grading/lab-definition.ts'
import { openCluster } from '../../grading/live-cluster.ts'
import { reportOf } from '../../grading/report.ts'
import { PlainFileError, readPlainFile } from '../../host/plain-file.ts'
import { plainText } from '../../host/plain-text.ts'
import { silent } from '../../host/progress.ts'
import { refuse } from '../submission/untrusted-text.ts'
import { printsOf } from './copies.ts'
import { examInCapture } from './exam-result.ts'
import {
  cleanText,
  gradedReport,
  type JudgedFile,
  type JudgeFileOptions,
  notGradedBecause,
  wordFlags,
} from './judge-file.ts'
import type { LiveTask } from './judge-pool.ts'
import { clusterAccess } from './kubeconfig-safety.ts'

const KUBECONFIG_BYTES = 2 ** 20

/**
 * Grades a learner's running cluster, real requests included. Never throws: errors of the cluster
 * are in the result.
 */
export async function judgeLive(
  { kubeconfig, lab }: LiveTask,
  options: JudgeFileOptions = {},
): Promise<JudgedFile> {
  const file = cleanText(basename(kubeconfig))
  try {
    const learner = basename(kubeconfig).replace(/\.(?:ya?ml|conf|config|kubeconfig)$/i, '')
    if (!LEARNER_NAME.test(learner))
      refuse('Its name must be the learner’s: letters, digits, dots and dashes.')
    const access = clusterAccess(readPlainFile(kubeconfig, KUBECONFIG_BYTES))
    const spec = await loadSpec(readLab(lab))
    const cluster = ContextCluster.ofLearner(learner, access)
    await cluster.up(silent)
    const source = await openCluster(cluster, { keepMoments: false })
    const began = performance.now()
    const { outcomes, snapshot } = await judge(spec, source)
    const request = {
      lab,
      source: { kind: 'cluster', driver: cluster.driver, name: learner } as const,
    }
    const report = reportOf(spec.lab, request, outcomes, {
      snapshot,
      seconds: (performance.now() - began) / 1000,
    })
    const { capture } = snapshot
    const prints = printsOf([{ capture, digests: new Map() }])
    const identity = prints.clusters[0] ?? ''
    const flags = wordFlags([['now', { capture }]], learner, options)
    const graded = {
      ...gradedReport(report, { learner, file, exam: examInCapture(lab, capture) }),
      cluster: { driver: cluster.driver, identity },
      flags,
    }
    return { file, seed: seedOf(learner), prints, graded }
  } catch (error) {
    if (error instanceof PlainFileError) return { file, refused: plainText(error.message) }
    return { file, refused: notGradedBecause(error, 'The cluster could not be graded') }
  }
}
