// How long a lab takes, from its text: the model behind `minutes` in lab.yaml.

import { type LabPart, parseLab, type WrittenLab } from '../../grading/lab-definition.ts'
import { type LabText, parseLabText } from '../lab-text.ts'
import { type CourseFiles, filesOfLab } from './course-files.ts'

/** What a learner does in a lab. */
export interface Effort {
  /** Words to read, without commands. */
  wordCount: number
  /** Command lines to run, and their output to read. */
  commands: number
  /** Blocks that run for more than a minute at most. */
  waits: number
  /** Predictions, questions, and questions about earlier labs. */
  questions: number
  minutes: number
}

/**
 * The model: technical English is read at 110 words a minute; a command takes 45 s with its output,
 * a wait a minute more, and a question 90 s with the search for its answer. A learner was timed in
 * labs 1, 2, 3, 5, 6 and 7 before their steps asked anything: 110, 90, 75, 60, 25 and 50 minutes;
 * the model gave 85, 85, 70, 75, 35 and 65.
 */
const WORDS_A_MINUTE = 110
const COMMAND_MINUTES = 0.75
const WAIT_MINUTES = 1
const QUESTION_MINUTES = 1.5
/** Minutes are stated in steps of five. */
const ROUNDED_TO = 5
const LONG_SECONDS = 60

/** Measures a lab's text. */
export function effortOf(
  text: Pick<LabText, 'intro' | 'outro' | 'sections' | 'fences' | 'quotes'>,
  { unguided }: Pick<WrittenLab, 'unguided'>,
): Effort {
  // The list of sources is looked up, and not read as text.
  const outro = text.outro.replace(/^## References$[\s\S]*/m, '')
  const parts = [text.intro, ...[...text.sections.values()].flatMap(Object.values), outro]
  const prose = parts
    .join('\n')
    .replace(/^```.*?^```/gms, '')
    .replace(/^ {4}.*$/gm, '')
  const lines = text.fences.flatMap(({ commands }) => commands.split('\n'))
  const isAnswer = (line: string) => line.startsWith('make answer ')
  const wordCount = (prose.match(/[\p{L}\p{N}][\p{L}\p{N}'./-]*/gu) ?? []).length
  const commands = lines.filter((line) => line.trim() !== '' && !isAnswer(line)).length
  const waits = text.fences.filter(({ timeout }) => timeout > LONG_SECONDS).length
  const questions = text.quotes.length + lines.filter(isAnswer).length
  const minutes =
    wordCount / WORDS_A_MINUTE +
    commands * COMMAND_MINUTES +
    waits * WAIT_MINUTES +
    questions * QUESTION_MINUTES +
    unguided
  return {
    wordCount,
    commands,
    waits,
    questions,
    minutes: Math.round(minutes / ROUNDED_TO) * ROUNDED_TO,
  }
}

type EffortText = Parameters<typeof effortOf>[0]

/**
 * Measures each part of a lab; work without instructions counts for the last one. Empty for a lab
 * without parts.
 */
export function effortOfParts(
  text: EffortText,
  { parts, steps, unguided }: Pick<WrittenLab, 'parts' | 'steps' | 'unguided'>,
): { part: LabPart; effort: Effort }[] {
  const ids = steps.map(({ id }) => id)
  const starts = parts.map(({ first }) => ids.indexOf(first))
  return parts.map((part, index) => {
    const isFirst = index === 0
    const isLast = index === parts.length - 1
    const own = new Set<string | undefined>(ids.slice(starts[index], starts[index + 1]))
    if (isFirst) own.add(undefined)
    const isOwn = ({ step }: { step?: string }) => own.has(step)
    const ofPart = {
      intro: isFirst ? text.intro : '',
      outro: isLast ? text.outro : '',
      sections: new Map([...text.sections].filter(([id]) => own.has(id))),
      fences: text.fences.filter(isOwn),
      quotes: text.quotes.filter(isOwn),
    }
    return { part, effort: effortOf(ofPart, { unguided: isLast ? unguided : 0 }) }
  })
}

/** The stated minutes may differ from the model by one step: authors measure, too. */
export const isTrueTo = ({ minutes }: Effort, stated: number): boolean =>
  Math.abs(stated - minutes) <= ROUNDED_TO

/** One line of a table of labs. */
const effortLine = (
  folder: string,
  { wordCount: count, commands, waits, questions, minutes }: Effort,
  stated: number,
): string =>
  `${folder.padEnd(22)}${[count, commands, waits, questions, minutes, stated].map((value) => String(value).padStart(10)).join('')}`

const EFFORT_HEAD = `${'lab'.padEnd(22)}${['words', 'commands', 'waits', 'questions', 'minutes', 'stated'].map((name) => name.padStart(10)).join('')}`

/**
 * Words, commands, waits, questions, and the minutes of the model and of lab.yaml for each lab that
 * can be read.
 */
export function effortTable({ labs }: Pick<CourseFiles, 'labs'>): string[] {
  const lines = labs.flatMap(({ folder, sources }): string[] => {
    const files = filesOfLab(folder)
    try {
      const lab = parseLab(sources[files.definition] ?? '', files.definition)
      const text = parseLabText(sources[files.text] ?? '', files.text)
      return [effortLine(folder, effortOf(text, lab), lab.minutes)]
    } catch {
      // The linter reports it.
      return []
    }
  })
  return [EFFORT_HEAD, ...lines]
}
