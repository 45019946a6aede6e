import { existsSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import MarkdownIt from 'markdown-it'
import { projectRoot } from '../host/layout.ts'

/** A fenced block of commands in a lab's text, with the attributes that follow ```bash. */
export interface Fence {
  commands: string
  timeout: number
  /** The section's step; absent before the first one. */
  step?: string
  line: number
}

/**
 * A blockquote in which the text asks: a prediction or question of its step, or a question about
 * earlier labs.
 */
export interface AskedQuote {
  kind: 'predict' | 'question' | 'recall'
  ask: string
  choices: string[]
  /** The command that answers, with `…` for the answer; empty if the blockquote has none. */
  command: string
  /** The section's step; absent before the first one. */
  step?: string
  line: number
}

/**
 * The markdown of a step's section without the marker: the task, the explanation of its result, and
 * what later steps need. Empty where the section has no such part.
 */
export interface Section {
  task: string
  seen: string
  onward: string
}

export interface LabText {
  /** The markdown below the title and before the first section. */
  intro: string
  /** The markdown of the last section if it belongs to no step. */
  outro: string
  /** The lab's CARD.md, a page of commands and facts to take away; empty if it has none. */
  card: string
  /** The sections of the steps, by id. */
  sections: Map<string, Section>
  fences: Fence[]
  quotes: AskedQuote[]
}

/** Where the explanation begins. */
export const SEEN = '**What you saw.**'
/** Where commands begin that later steps need. */
const ONWARD = '**Before you go on.**'
const ASKED = /^\*\*(Predict|Question|Recall)\.\*\*/
const MARKER = /^<!-- step: ([a-z0-9-]+) -->$\n?/m
const DEFAULT_TIMEOUT = 60

/**
 * Reads `labs/NN-name/README.md`: a section `## …` with `<!-- step: id -->` under its heading is
 * the text of that step, and the reader types every ```bash fence. Throws Error for an unknown
 * attribute of a fence.
 */
export function readLabText(folder: string): LabText {
  const file = join(projectRoot, 'labs', folder, 'README.md')
  const card = join(projectRoot, 'labs', folder, 'CARD.md')
  return {
    ...parseLabText(readFileSync(file, 'utf8'), file),
    card: existsSync(card) ? readFileSync(card, 'utf8').trim() : '',
  }
}

const FILE_LINK = /\[([^\]\n]+)\]\((?!\w+:)([^)\s#]+)(?:#[^)\s]*)?\)/g

/**
 * A text of a lab with the paths of the files that it links to, from the root of the checkout:
 * nothing follows a link in a terminal, and on the guide's page it would lead away from the lab.
 */
export const withPaths = (text: string, folder: string): string =>
  text.replace(FILE_LINK, (_, label: string, target: string) => {
    const path = posix.join('labs', folder, target)
    return path.includes(label) ? `\`${path}\`` : `${label} (\`${path}\`)`
  })

/** Parses the text of a README as readLabText does, without its card. */
export function parseLabText(text: string, file: string): LabText {
  const lines = text.split('\n')
  const tokens = new MarkdownIt({ html: true }).parse(text, {})
  const headings = tokens.filter(({ type, tag }) => type === 'heading_open' && tag === 'h2')
  const starts = headings.flatMap(({ map }) => map?.[0] ?? [])
  const parts = starts.map((start, index) => {
    const written = lines.slice(start, starts[index + 1]).join('\n')
    return { start, step: MARKER.exec(written)?.[1], text: written.replace(MARKER, '').trim() }
  })
  const sections = new Map<string, Section>()
  for (const { step, text } of parts) if (step !== undefined) sections.set(step, sectionOf(text))
  const title = /^# .*$/m
  const intro = lines.slice(0, starts[0]).join('\n').replace(title, '').trim()
  const lastStep = parts.findLastIndex(({ step }) => step !== undefined)
  const outro = parts
    .slice(lastStep + 1)
    .map(({ text }) => text)
    .join('\n\n')
  const fences = tokens
    .filter(({ type, info }) => type === 'fence' && /^bash\b/.test(info))
    .map(({ info, content, map }): Fence => {
      const line = map?.[0] ?? 0
      const step = parts.findLast(({ start }) => start <= line)?.step
      const timeout = readTimeout(info, `${file}:${line + 1}`)
      return {
        commands: content.trim(),
        timeout,
        line: line + 1,
        ...(step !== undefined && { step }),
      }
    })
  const quotes = tokens
    .filter(({ type, level }) => type === 'blockquote_open' && level === 0)
    .flatMap(({ map }): AskedQuote[] => {
      const [start = 0, end = 0] = map ?? []
      const quote = readQuote(lines.slice(start, end).map((line) => line.replace(/^\s*> ?/, '')))
      const step = parts.findLast((part) => part.start <= start)?.step
      return quote ? [{ ...quote, line: start + 1, ...(step !== undefined && { step }) }] : []
    })
  return { intro, outro, card: '', sections, fences, quotes }
}

/** What a reader of the text does, in its order: types commands and answers. */
export const partsInOrder = ({ fences, quotes }: LabText): (Fence | AskedQuote)[] =>
  [...fences, ...quotes].sort((one, other) => one.line - other.line)

/**
 * `**Predict.** …?`, the choices after it, and the command that answers. Undefined for any other
 * blockquote.
 */
function readQuote(lines: readonly string[]): Omit<AskedQuote, 'step' | 'line'> | undefined {
  const text = lines.join(' ').trim()
  const kind = ASKED.exec(text)?.[1]?.toLowerCase()
  if (kind !== 'predict' && kind !== 'question' && kind !== 'recall') return undefined
  const command = /`(make answer [^`]+)`/.exec(text)?.[1] ?? ''
  const body = text.replace(ASKED, '').replace(`\`${command}\``, '').replace(/\s+/g, ' ').trim()
  const end = body.lastIndexOf('?') + 1
  const choices = [...body.slice(end).matchAll(/`([^`]+)`/g)].map(([, name = '']) => name)
  return { kind, ask: end === 0 ? body : body.slice(0, end), choices, command }
}

function sectionOf(text: string): Section {
  const marks = [SEEN, ONWARD].map((mark) => text.indexOf(mark)).filter((at) => at !== -1)
  const task = text.slice(0, Math.min(text.length, ...marks))
  return { task, seen: partFrom(text, SEEN, ONWARD), onward: partFrom(text, ONWARD, SEEN) }
}

/** The text from a mark to the other one, or to the end. */
function partFrom(text: string, mark: string, other: string): string {
  const start = text.indexOf(mark)
  if (start === -1) return ''
  const end = text.indexOf(other, start)
  return end === -1 ? text.slice(start) : text.slice(start, end)
}

function readTimeout(info: string, place: string): number {
  let timeout = DEFAULT_TIMEOUT
  for (const attribute of info.split(/\s+/).slice(1)) {
    const value = /^timeout=(\d+)$/.exec(attribute)?.[1]
    if (value === undefined)
      throw new Error(
        `${place}: "${attribute}" is not an attribute of a fence; the only one is timeout=SECONDS.`,
      )
    timeout = Number(value)
  }
  return timeout
}
