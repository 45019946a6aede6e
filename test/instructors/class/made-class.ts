import { seedOf } from '../../../grading/class-key.ts'
import type { Prints } from '../../../instructors/class/copies.ts'
import type { JudgedFile } from '../../../instructors/class/judge-file.ts'
import type { ExamResult, Graded } from '../../../instructors/class/result.ts'

export interface Made {
  /** Put wherever a submission's own text may be shown. */
  text?: string
  prints?: Partial<Prints>
  seed?: string
  submittedAt?: string
  file?: string
  allPassed?: boolean
}

/** What the report of a failed step says, with a text wherever a learner's own may be. */
const findingOf = (text: string) => ({
  node: text || 'worker',
  inspect: `look ${text}`,
  expected: text || 'this',
  actual: text || 'that',
  why: `why ${text}`,
  hint: text || 'do it',
})

/** A graded submission of a lab of three steps: passed, failed, not applicable. */
export function gradedEntry(
  learner: string,
  {
    text = '',
    submittedAt = '2026-11-20T10:00:00.000Z',
    file = `${learner}-lab2.labgrade`,
    allPassed = false,
  }: Made = {},
): Graded {
  const textOr = (usual: string) => text || usual
  const [flush, points]: [object, number] = allPassed
    ? [{ verdict: 'passed', points: 3 }, 8]
    : [{ verdict: 'failed', points: 0, finding: findingOf(text) }, 5]
  return {
    file: textOr(file),
    learner,
    lab: 2,
    title: 'A lab for tests',
    submittedAt,
    counts: true,
    signature: 'none',
    cluster: { driver: textOr('embedded'), identity: '' },
    versions: { kubeProxy: textOr('v1.34.11'), mode: textOr('ipvs') },
    score: points,
    maxScore: 8,
    steps: [
      {
        id: 'web',
        title: 'Two Pods stand',
        verdict: 'passed',
        points: 5,
        maxPoints: 5,
        claimed: 'passed',
      },
      {
        id: 'flush',
        title: 'Nothing is left',
        maxPoints: 3,
        ...flush,
      } as Graded['steps'][number],
      {
        id: 'probe',
        title: 'It answers',
        verdict: 'not applicable',
        points: 0,
        maxPoints: 2,
        reason: textOr('it sends real requests'),
      },
    ],
    answers: [{ question: textOr('q'), answer: textOr('a') }],
    flags: text ? [{ kind: 'claims', text }] : [],
    ...(text ? { exam: examResult(text) } : {}),
  }
}

/**
 * The result of an exam of two incidents, one of them handed in unsolved, with a text wherever a
 * learner's own may be.
 */
function examResult(text: string): ExamResult {
  const handedIn = { of: 100, seconds: 65, hints: 0, wrong: 0 }
  return {
    seed: text,
    hard: false,
    startedAt: '2026-11-20T09:00:00.000Z',
    of: 2,
    points: 100,
    maxPoints: 200,
    parts: [
      { ...handedIn, id: 'untracked', points: 100, diagnosed: true, repaired: true },
      { ...handedIn, id: text, points: 0, diagnosed: false, repaired: false },
    ],
  }
}

export function judgedEntry(learner: string, made: Made = {}): JudgedFile {
  const prints = {
    clusters: [`cluster of ${learner}`],
    files: [],
    learners: [],
    ...made.prints,
  }
  return {
    file: made.file ?? `${learner}-lab2.labgrade`,
    graded: gradedEntry(learner, made),
    seed: made.seed ?? seedOf(learner),
    prints,
  }
}
