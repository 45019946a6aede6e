import type { Token } from 'markdown-it'
import { type LabText, readLabText } from '../../course/lab-text.ts'
import { commentOf } from '../../dataplane/rule.ts'
import { listLabs, readLab } from '../../grading/lab-definition.ts'
import { type Figure, textWidth } from '../figures/canvas.ts'
import { type Deck, DeckError, type Directive, markdown, type Slide } from './deck.ts'
import { drawFigure } from './figure-catalogue.ts'
import { readRecording } from './recording.ts'
import { CONTENT, FOLD_SCALE, GEOMETRY } from './style.ts'

/** Commands from a lab's text, with their reference. */
interface LabFence {
  commands: string
  reference: string
}

const REFERENCE = /^([0-9]{2}-[a-z0-9-]+)\/([a-z0-9-]+)#(\d+)$/

/**
 * Resolves `02-ipvs/web#1` (the first fence of step web in lab 02-ipvs; `start` and `done` name the fences before the first
 * and after the last step), with `lines` like `1-2` for a part of it. `readLab` returns the text of a lab's folder, or
 * undefined if there is none. Throws Error with the reference and the existing fences.
 */
export function resolveFence(
  reference: string,
  lines: string | undefined,
  readLab: (folder: string) => LabText | undefined,
): LabFence {
  const [, folder, step, number] = REFERENCE.exec(reference) ?? []
  if (!folder || !step || !number) {
    throw new Error(`"${reference}" is not a reference to a fence such as "02-ipvs/web#1"`)
  }
  const lab = readLab(folder)
  if (!lab) throw new Error(`"${reference}" names a lab that does not exist, labs/${folder}/README.md`)
  const fences = fencesOf(lab, step)
  const fence = fences[Number(number) - 1]
  if (!fence) {
    throw new Error(`"${reference}" does not exist: labs/${folder}/README.md has ${fences.length} fences of "${step}"`)
  }
  const commands = lines === undefined ? fence : pick(fence, lines, reference)
  return {
    commands: commands
      .split('\n')
      .flatMap((line) => foldCommand(line))
      .join('\n'),
    reference,
  }
}

function fencesOf(lab: LabText, step: string): string[] {
  const first = lab.fences.findIndex((fence) => fence.step !== undefined)
  return lab.fences
    .filter((fence, index) => {
      if (step === 'start') return fence.step === undefined && (first === -1 || index < first)
      if (step === 'done') return fence.step === undefined && index > first
      return fence.step === step
    })
    .map((fence) => fence.commands)
}

function pick(commands: string, lines: string, reference: string): string {
  const all = commands.split('\n')
  const [, from, to = from] = /^(\d+)(?:-(\d+))?$/.exec(lines) ?? []
  const first = Number(from)
  const last = Number(to)
  if (!(first >= 1 && last >= first && last <= all.length)) {
    throw new Error(`"${reference}" has ${all.length} lines, so lines=${lines} is out of range`)
  }
  return all.slice(first - 1, last).join('\n')
}

/** The content of a slide with every reference resolved. */
export type Content =
  | { kind: 'text'; tokens: Token[] }
  | { kind: 'code'; text: string; label: string }
  | { kind: 'figure'; figure: Figure }

export interface BuiltSlide extends Pick<Slide, 'title' | 'titleTokens' | 'level' | 'notes' | 'line'> {
  contents: Content[]
}

export interface BuiltDeck {
  name: string
  title: string
  slides: BuiltSlide[]
}

/** Resolves every reference of a deck. Throws DeckError with one line for each broken one. */
export function fillDeck(deck: Deck): BuiltDeck {
  const faults: string[] = []
  const slides = deck.slides.map(({ blocks, ...slide }) => {
    const contents = blocks.flatMap((block): Content[] => {
      if ('tokens' in block) return [{ kind: 'text', tokens: block.tokens }]
      try {
        return [follow(block.directive)]
      } catch (error) {
        faults.push(
          `slides/${deck.name}.md:${block.directive.line}: ${error instanceof Error ? error.message : error}.`,
        )
        return []
      }
    })
    return { ...slide, contents }
  })
  if (faults.length > 0) throw new DeckError(faults.join('\n'))
  return { name: deck.name, title: deck.title, slides }
}

function follow(directive: Directive): Content {
  const { kind, name, options } = directive
  if (kind === 'figure') return { kind: 'figure', figure: drawFigure(directive) }
  if (kind === 'fence') {
    const { commands, reference } = resolveFence(name, options.get('lines'), labText)
    return { kind: 'code', text: commands, label: `Commands of ${reference}` }
  }
  if (kind === 'rules') return { kind: 'code', text: rulesOf(directive), label: `The chain ${name}` }
  if (kind === 'labs') return { kind: 'text', tokens: markdown.parse(labTable(), {}) }
  throw new Error(`"${kind}" is not a directive; use fence, figure, rules, labs or notes`)
}

function labText(folder: string): LabText | undefined {
  return listLabs().some((lab) => lab.folder === folder) ? readLabText(folder) : undefined
}

/** A chain of a recording, without the long comments. */
function rulesOf({ name, options }: Directive): string {
  const recording = options.get('recording') ?? ''
  const table = options.get('table') ?? 'nat'
  const chain = readRecording(recording).state.iptables.get(table)?.get(name)
  if (!chain) throw new Error(`"${recording}" has no chain "${name}" in the table ${table}`)
  const scale = chain.rules.length > 4 ? 1 : FOLD_SCALE
  return chain.rules
    .map(({ spec }) => {
      const comment = commentOf(spec)
      return `-A ${name} ${spec}`
        .replace(` -m comment --comment "${comment}"`, '')
        .replace(` -m comment --comment ${comment}`, '')
    })
    .flatMap((rule) => foldCommand(rule, { end: '', scale }))
    .join('\n')
}

function labTable(): string {
  const rows = listLabs().map(({ number }) => {
    const { title, minutes } = readLab(number)
    return `| ${number} | ${title} | ${minutes} |`
  })
  return ['| lab | topic | minutes |', '|---|---|---|', ...rows].join('\n')
}

const widthOf = (line: string): number => textWidth(line, GEOMETRY.code, 'mono')

/** A word with the blank after it, and the quote that is open at its start. */
interface Word {
  text: string
  quote: string
}

/** Splits a command at the blanks where a line may end: not within single quotes, nor after $( within double quotes. */
function splitWords(command: string): Word[] {
  const words: Word[] = []
  let quote = ''
  let word: Word = { text: '', quote }
  for (const [index, letter] of [...command].entries()) {
    const isEscaped = command[index - 1] === '\\' && quote !== "'"
    word.text += letter
    if ((letter === "'" || letter === '"') && !isEscaped && (quote === '' || quote === letter))
      quote = quote === '' ? letter : ''
    if (letter === ' ' && quote !== "'" && !command.slice(0, index).includes('"$(')) {
      words.push(word)
      word = { text: '', quote }
    }
  }
  return [...words, word]
}

/** How well a line can end before a word: outside of quotes, and before an option or another command, not before an option's value. */
const breakRank = ({ text, quote }: Word, before: string): number =>
  (quote === '' ? 2 : 0) + (/^(-|[|&])/.test(text) || before.trimEnd().endsWith(';') ? 1 : 0)

/**
 * Folds a command to a slide's width, with backslashes at line ends: lines that the browser wraps cannot be copied as one
 * command. Within double quotes the shell removes backslash and newline, so no space may be added there; within single quotes
 * a line is never broken. A rule is folded without them, as it is no command.
 */
export function foldCommand(command: string, { end, scale } = { end: ' \\', scale: FOLD_SCALE }): string[] {
  const room = CONTENT.width / scale - 2 * GEOMETRY.codePad
  const lines: string[] = []
  let words = splitWords(command)
  let indent = ''
  while (widthOf(indent + words.map(({ text }) => text).join('')) > room) {
    let line = indent
    let best: { count: number; rank: number } | undefined
    for (const [count, word] of words.entries()) {
      const before = words[count - 1]?.text ?? ''
      // A word that is too wide has a line of its own.
      if (count > 1 && widthOf(line.trimEnd() + end) > room) break
      const rank = widthOf(line) > room / 6 ? breakRank(word, before) : 0
      if (count > 0 && rank >= (best?.rank ?? 0)) best = { count, rank }
      line += word.text
    }
    if (best === undefined) break
    const taken = words.slice(0, best.count).map(({ text }) => text)
    lines.push(`${(indent + taken.join('')).trimEnd()}${end}`)
    words = words.slice(best.count)
    indent = words[0]?.quote === '' || end === '' ? '  ' : ''
  }
  return [...lines, indent + words.map(({ text }) => text).join('')]
}
