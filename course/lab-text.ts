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
const MARKER = /^<!-- step: ([a-z0-9-]+) -->$\n?/m
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
  const last = parts.at(-1)
  const outro = last && last.step === undefined ? last.text : ''
  const fences = tokens
    .filter(({ type, info }) => type === 'fence' && /^bash\b/.test(info))
    .map(({ info, content, map }): Fence => {
      const line = map?.[0] ?? 0
      const step = parts.findLast(({ start }) => start <= line)?.step
      const timeout = readTimeout(info, `${file}:${line + 1}`)
      return { commands: content.trim(), timeout, line: line + 1, ...(step !== undefined && { step }) }
    })
  return { intro, outro, sections, fences }
}

function sectionOf(text: string): Section {
  const at = text.indexOf(SEEN)
  return at === -1 ? { task: text, seen: '' } : { task: text.slice(0, at), seen: text.slice(at) }
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
