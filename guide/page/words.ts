import type { Change } from '../../dataplane/view/changes.ts'
import type { Verdict } from '../../grading/report-schema.ts'
import type { StepProgress } from '../protocol.ts'

/** The signs beside the colours, so that colour is never the only sign. */
export const SIGNS: Readonly<Record<Change['change'], string>> = {
  added: '+',
  removed: '−',
  changed: '~',
  moved: '↕',
}

/**
 * The sign, the word and the style of a verdict; `looking` before there is one, `ready` while only
 * requests are missing, `kept` for a step that has passed before and does not hold now.
 */
export const VERDICTS: Readonly<
  Record<Verdict | 'looking' | 'ready' | 'kept', { sign: string; word: string; tone: string }>
> = {
  passed: { sign: '✓', word: 'Passed', tone: 'good' },
  failed: { sign: '○', word: 'Not yet done', tone: 'open' },
  'not yet': { sign: '…', word: 'Not yet', tone: 'open' },
  'not applicable': { sign: '–', word: 'Not applicable', tone: 'calm' },
  'could not check': { sign: '!', word: 'Could not check', tone: 'bad' },
  ready: { sign: '…', word: 'Ready to be checked', tone: 'open' },
  kept: { sign: '✓', word: 'Passed before', tone: 'kept' },
  looking: { sign: '…', word: 'Reading the nodes', tone: 'calm' },
}

/** `25 min` or `1 h 5 min`. */
export const durationText = (minutes: number): string =>
  minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`

/** How a step is shown: by its verdict now, or because its points are kept. */
export function shownAs(step: StepProgress | undefined): keyof typeof VERDICTS {
  if (!step?.verdict) return step && step.kept > 0 ? 'kept' : 'looking'
  if (step.verdict !== 'passed' && step.kept > 0) return 'kept'
  return step.unsent ? 'ready' : step.verdict
}
