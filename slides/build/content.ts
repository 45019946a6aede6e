import type { Token } from 'markdown-it'
import { type LabText, readLabText } from '../../course/lab-text.ts'
import { commentOf } from '../../dataplane/rule-text.ts'
import { readLab } from '../../grading/lab-definition.ts'
import { listLabs } from '../../grading/lab-folders.ts'
import type { Figure } from '../figures/canvas.ts'
import { type Deck, DeckError, type Directive, markdown, type Slide } from './deck.ts'
import { drawFigure } from './figure-catalogue.ts'
import { resolveFence } from './lab-fence.ts'
import { readRecording } from './recording.ts'

/** The content of a slide with every reference resolved. */
export type Content =
  | { kind: 'text'; tokens: Token[] }
  | { kind: 'code'; text: string; says: string }
  | { kind: 'figure'; figure: Figure }

export interface BuiltSlide extends Pick<Slide, 'title' | 'titleTokens' | 'level' | 'notes' | 'line'> {
  contents: Content[]
}

export interface BuiltDeck {
  name: string
  title: string
  slides: BuiltSlide[]
}

/** Follows every reference of a deck. Throws DeckError with one line for each that is broken. */
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
    return { kind: 'code', text: commands, says: `Commands of ${reference}` }
  }
  if (kind === 'rules') return { kind: 'code', text: rulesOf(directive), says: `The chain ${name}` }
  if (kind === 'labs') return { kind: 'text', tokens: markdown.parse(labTable(), {}) }
  throw new Error(`"${kind}" is nothing that a slide can hold; there are fence, figure, rules, labs and notes`)
}

function labText(folder: string): LabText | undefined {
  return listLabs().some((lab) => lab.folder === folder) ? readLabText(folder) : undefined
}

/** A chain as a recording has it, without the comments, which are long. */
function rulesOf({ name, options }: Directive): string {
  const recording = options.get('recording') ?? ''
  const table = options.get('table') ?? 'nat'
  const chain = readRecording(recording).state.iptables.get(table)?.get(name)
  if (!chain) throw new Error(`"${recording}" has no chain "${name}" in the table ${table}`)
  return chain.rules
    .map(({ spec }) => {
      const comment = commentOf(spec)
      return `-A ${name} ${spec}`
        .replace(` -m comment --comment "${comment}"`, '')
        .replace(` -m comment --comment ${comment}`, '')
    })
    .join('\n')
}

function labTable(): string {
  const rows = listLabs().map(({ number }) => {
    const { title, minutes } = readLab(number)
    return `| ${number} | ${title} | ${minutes} |`
  })
  return ['| lab | what it is about | minutes |', '|---|---|---|', ...rows].join('\n')
}
