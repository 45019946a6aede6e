import { readFileSync } from 'node:fs'
import { join } from 'node:path'
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

/** The markdown of a step's section without the marker: the task, and the explanation of its result if there is one. */
export interface Section {
  task: string
  seen: string
}

export interface LabText {
  /** The markdown below the title and before the first section. */
  intro: string
  /** The markdown of the last section if it belongs to no step. */
  outro: string
  /** The sections of the steps, by id. */
  sections: Map<string, Section>
  fences: Fence[]
}

/** Where the explanation begins. */
export const SEEN = '**What you saw.**'
const MARKER = /^<!-- step: ([a-z0-9-]+) -->$/m
const DEFAULT_TIMEOUT = 60

/**
 * Reads `labs/NN-name/README.md`: a section `## …` with `<!-- step: id -->` under its heading is the text of that step, and
 * the reader types every ```bash fence. Throws Error for an unknown attribute of a fence.
 */
export function readLabText(folder: string): LabText {
  const file = join(projectRoot, 'labs', folder, 'README.md')
  return parseLabText(readFileSync(file, 'utf8'), file)
}

/** Parses the text of a README as readLabText does. */
export function parseLabText(text: string, file: string): LabText {
  const lines = text.split('\n')
  const tokens = new MarkdownIt({ html: true }).parse(text, {})
  const starts = tokens.flatMap((token) =>
    token.type === 'heading_open' && token.tag === 'h2' && token.map ? [token.map[0]] : [],
  )
  const sections = new Map<string, Section>()
  const stepAt: (string | undefined)[] = []
  for (const [index, start] of starts.entries()) {
    const end = starts[index + 1] ?? lines.length
    const section = lines.slice(start, end).join('\n')
    const step = MARKER.exec(section)?.[1]
    for (let line = start; line < end; line++) stepAt[line] = step
    if (step === undefined) continue
    const [task = '', ...rest] = section
      .replace(`${MARKER.exec(section)?.[0]}\n`, '')
      .trim()
      .split(SEEN)
    sections.set(step, { task, seen: ['', ...rest].join(SEEN) })
  }
  const intro = lines
    .slice(0, starts[0])
    .join('\n')
    .replace(/^# .*$/m, '')
    .trim()
  const last = starts.at(-1) ?? lines.length
  const outro = stepAt[last] === undefined ? lines.slice(last).join('\n').trim() : ''
  const fences = tokens
    .filter((token) => token.type === 'fence' && /^bash\b/.test(token.info))
    .map((token) => {
      const line = token.map?.[0] ?? 0
      const step = stepAt[line]
      const timeout = readTimeout(token.info, `${file}:${line + 1}`)
      return { commands: token.content.trim(), timeout, line: line + 1, ...(step === undefined ? {} : { step }) }
    })
  return { intro, outro, sections, fences }
}

function readTimeout(info: string, place: string): number {
  let timeout = DEFAULT_TIMEOUT
  for (const attribute of info.split(/\s+/).slice(1)) {
    const value = /^timeout=(\d+)$/.exec(attribute)?.[1]
    if (value === undefined)
      throw new Error(`${place}: "${attribute}" is not an attribute of a fence; the only one is timeout=SECONDS.`)
    timeout = Number(value)
  }
  return timeout
}
