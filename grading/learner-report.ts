import { chalk } from 'zx/core'
import type { DifferenceText } from '../dataplane/compare.ts'
import { plainText, shortened } from '../host/plain-text.ts'
import { wrapLines } from '../host/wrap-lines.ts'
import type { StepOutcome } from './failure.ts'
import { listLabs, type StepDefinition } from './lab-definition.ts'
import { learningLines } from './learning-lines.ts'
import { findingOf, pointsWith } from './report.ts'
import type { Finding, Report, Source, StepReport, Verdict } from './report-schema.ts'

/** The sign of each verdict. */
export const MARKS: Record<Verdict, string> = {
  passed: '✓',
  failed: '✗',
  'not yet': '–',
  'not applicable': '·',
  'could not check': '!',
}
const DIFFERENCES_SHOWN = 8
const BLOCK_LINES_SHOWN = 6
const TEXT_WIDTH = 100
const TEXT_INDENT = 14
const NOTE_WIDTH = 300
const WIDEST_MEASURED = 136

/**
 * A report as text: a line per step, the first failure in full, the score. Works without colour and
 * without a terminal.
 */
export function learnerReport(report: Report): string {
  const lines = [chalk.bold(`Lab ${report.lab}: ${report.title}`), ...circumstances(report), '']
  if (report.trouble !== undefined)
    return `${[...lines, `${MARKS['could not check']} ${plainText(report.trouble)}`, '  Nothing was checked, and no points are lost.'].join('\n')}\n`
  const width = Math.max(...report.steps.map(({ id }) => id.length))
  let opened = false
  for (const step of report.steps) {
    lines.push(...stepLines(step, width))
    lines.push(...askedBy(step).flatMap((line) => indented(line).map((part) => chalk.dim(part))))
    if (report.steps.length === 1)
      lines.push(...learningLines(step.learning).flatMap((line) => indented(line)))
    lines.push(...measuredLines(step))
    if (!step.finding) continue
    if (!opened) lines.push(...findingLines(report.lab, step.id, step.finding))
    else if (step.finding.node)
      lines.push(
        chalk.dim(
          `    on ${plainText(step.finding.node)}: ${shortened(plainText(step.finding.actual))}`,
        ),
      )
    opened = true
  }
  return `${[...lines, ...noteLines(report), '', ...summary(report)].join('\n')}\n`
}

/** What an open step still asks: its prediction until one was given, then its question. */
function askedBy({ verdict, predict, question, learning }: StepReport): string[] {
  if (verdict !== 'failed' && verdict !== 'not yet') return []
  if (predict !== undefined && !learning?.prediction) return [`predict: ${predict}`]
  return question === undefined || learning?.answered ? [] : [`asks: ${question}`]
}

const noteLines = ({ notes = [] }: Report): string[] =>
  notes.length === 0
    ? []
    : ['', ...notes.map((note) => chalk.yellow(`Note: ${shortened(plainText(note), NOTE_WIDTH)}.`))]

/** One line for a step that was just judged: `✓ passed, 5 points`. */
export function outcomeLine(outcome: StepOutcome, { points }: StepDefinition): string {
  const { verdict, reason } = outcome
  const why = reason ? `: ${plainText(reason)}` : ''
  const verdictText =
    verdict === 'passed' ? `passed, ${pointsWith(points, outcome)} points` : `${verdict}${why}`
  return colour(verdict, `${MARKS[verdict]} ${verdictText}`)
}

/**
 * The finding of a step that was just judged and failed, as the report shows it; empty for any
 * other.
 */
export function failureLines(
  lab: number,
  step: StepDefinition,
  { failure }: StepOutcome,
): string[] {
  return failure ? findingLines(lab, step.id, findingOf(step, failure)) : []
}

/** The measured values of a step, as in the report; empty for a step without measurements. */
export function measuredLines({
  measured = [],
}: {
  measured?: readonly string[] | undefined
}): string[] {
  return measured.flatMap((line) => indented(plainText(line), WIDEST_MEASURED))
}

function circumstances({ source, versions }: Report): string[] {
  const proxy = versions.kubeProxy ? `, kube-proxy ${plainText(versions.kubeProxy)}` : ''
  return [
    chalk.dim(
      `${placeOf(source)}${proxy}${versions.mode ? ` in ${plainText(versions.mode)} mode` : ''}`,
    ),
  ]
}

function placeOf(source: Source): string {
  if (source.kind === 'cluster') return `${source.driver} cluster "${source.name}"`
  return source.kind === 'capture'
    ? `capture ${plainText(source.folder)}`
    : `submission ${plainText(source.file)}`
}

function colour(verdict: Verdict, text: string): string {
  if (verdict === 'passed') return chalk.green(text)
  if (verdict === 'failed') return chalk.red(text)
  if (verdict === 'could not check') return chalk.yellow(text)
  return chalk.dim(text)
}

/** The columns of the terminal; without one no line is wrapped. */
const terminalColumns = (): number => process.stdout.columns || Number.POSITIVE_INFINITY

/** A text below its step, within the width of the terminal, and within `widest` columns. */
const indented = (text: string, widest = terminalColumns()): string[] => {
  const width = Math.min(terminalColumns(), widest)
  return text.length + 4 <= width ? [`    ${text}`] : wrapLines(text, width, '    ')
}

function stepLines(step: StepReport, width: number): string[] {
  const { verdict, id, title, points, maxPoints } = step
  const counted = verdict !== 'not applicable' && verdict !== 'could not check'
  const score = counted ? `${points}/${maxPoints}` : '–'
  const verdictText =
    verdict === 'passed' || verdict === 'failed' ? '' : ` (${step.reason ?? verdict})`
  const head = `${colour(verdict, MARKS[verdict])} ${id.padEnd(width)}  ${score.padStart(5)}  `
  return wrapLines(`${title}${chalk.dim(plainText(verdictText))}`, terminalColumns(), head)
}

/** A finding as labelled texts, from the node to the next command. Commands are `whole`. */
export function findingParts(
  lab: number,
  step: string,
  finding: Finding,
): { label: string; text: string; whole?: true }[] {
  const { node, inspect, expected, actual, why, hint, next, evidence } = finding
  const whole = true as const
  return [
    ...(node === undefined ? [] : [{ label: 'node', text: node }]),
    { label: 'inspect', text: inspect, whole },
    { label: 'expected', text: expected },
    { label: 'found', text: actual },
    ...differencesOf(finding).map((text) => ({ label: '', text, whole })),
    { label: 'about', text: why },
    ...(evidence === undefined ? [] : [{ label: 'evidence', text: evidence }]),
    { label: 'next', text: hint },
    { label: '', text: next ?? `make hint LAB=${lab} STEP=${step}`, whole },
  ].map((part) => ({ ...part, text: plainText(part.text) }))
}

/** The same as lines. */
export function findingLines(lab: number, step: string, finding: Finding): string[] {
  return findingParts(lab, step, finding).flatMap(({ label, text, whole }) =>
    whole ? [`    ${label.padEnd(9)} ${text}`] : labelled(label, text),
  )
}

/** A label and its text, wrapped at words, on a narrow terminal within its width. */
function labelled(label: string, text: string): string[] {
  const width = Math.max(TEXT_INDENT + 20, Math.min(TEXT_INDENT + TEXT_WIDTH, terminalColumns()))
  return wrapLines(text, width, `    ${label.padEnd(9)} `)
}

/** The lines of a finding's first differences, and the number of further ones. */
export function differencesOf({ differences }: Finding): string[] {
  const hidden = differences.length - DIFFERENCES_SHOWN
  return [
    ...differences.slice(0, DIFFERENCES_SHOWN).flatMap(differenceLines),
    ...(hidden > 0 ? [`… and ${hidden} more, all are in the evidence`] : []),
  ]
}

function differenceLines({ kind, text, expected, actual }: DifferenceText): string[] {
  const mark = kind.toUpperCase().padEnd(7)
  if (kind === 'wrong' || kind === 'order')
    return [`${mark} ${shortened(text)}`, ...block('must be', expected), ...block('is', actual)]
  const quoted = kind === 'missing' ? expected : actual
  const lines = (quoted ?? text).split('\n')
  const more = lines.length - BLOCK_LINES_SHOWN
  return [
    ...lines
      .slice(0, BLOCK_LINES_SHOWN)
      .map((line, index) => `${index === 0 ? mark : ' '.repeat(7)} ${shortened(line)}`),
    ...(more > 0 ? [`        … ${more} more lines`] : []),
  ]
}

function block(label: string, text: string | undefined): string[] {
  if (text === undefined) return []
  return text
    .split('\n')
    .slice(0, BLOCK_LINES_SHOWN)
    .map((line) => `        ${label.padEnd(7)} ${shortened(line)}`)
}

/** The score in one line: `40/90 points, 9 of 17 steps passed`. */
export function scoreLine({
  steps,
  score,
  maxScore,
}: Pick<Report, 'steps' | 'score' | 'maxScore'>): string {
  const passed = steps.filter(({ verdict }) => verdict === 'passed').length
  const counted = steps.filter(({ verdict }) => verdict !== 'not applicable').length
  return `${score}/${maxScore} points, ${passed} of ${counted} steps passed`
}

function summary(report: Report): string[] {
  const { steps, seconds, exitCode } = report
  const unchecked = steps.filter(({ verdict }) => verdict === 'could not check').length
  const lines = [
    chalk.bold(`Score: ${scoreLine(report)}`) + chalk.dim(` (${seconds.toFixed(1)} s)`),
  ]
  if (unchecked > 0)
    lines.push(
      `${unchecked} could not be checked, which costs no points: ${plainText(firstReason(steps))}`,
    )
  if (exitCode === 0) lines.push('Every step that could be judged has passed.')
  const open =
    steps.find(({ verdict }) => verdict === 'failed') ??
    steps.find(({ verdict }) => verdict === 'not yet')
  if (open)
    lines.push(
      `Next: ${open.id}. The text is in ${textOf(report.lab)}, a hint is \`make hint LAB=${report.lab}\`.`,
    )
  return lines
}

function textOf(lab: number): string {
  const folder = listLabs().find(({ number }) => number === lab)?.folder
  return folder === undefined ? 'labs/' : `labs/${folder}/README.md`
}

function firstReason(steps: readonly StepReport[]): string {
  return steps.find(({ verdict }) => verdict === 'could not check')?.reason ?? ''
}
