import MarkdownIt from 'markdown-it'
import { type LabText, readLabText } from '../../course/lab-text.ts'
import { workshopPlanOf, workshopTable } from '../../course/workshop-plan.ts'
import { listLabs, readLab } from '../../grading/lab-definition.ts'
import { type Drawing, escapeText, type Figure } from '../figures/canvas.ts'
import { drawFigure } from './figure-catalogue.ts'
import { foldCommand } from './fold-command.ts'
import { readRecording } from './recording.ts'
import { FOLD_SCALE } from './style.ts'

export const markdown = new MarkdownIt({ html: true })

/** A comment of a slide that the build replaces: `<!-- figure: hooks path=in -->`. */
export interface Directive {
  kind: string
  /** Everything after the colon. */
  text: string
  /** The words without a `=`. */
  name: string
  options: ReadonlyMap<string, string>
}

const COMMENT = /^<!--\s*([a-z]+)(?::\s*([\s\S]*?))?\s*-->\s*$/

/** Reads a block of HTML. Throws Error if it is not a directive. */
export function readDirective(html: string): Directive {
  const [, kind, text = ''] = COMMENT.exec(html.trim()) ?? []
  if (kind === undefined)
    throw new Error(
      `"${html.trim().slice(0, 40)}" is HTML; a slide is markdown and <!-- name: … -->`,
    )
  const parts = text.split(/\s+/).filter((word) => word !== '')
  const pairs = parts.flatMap((word) => {
    const [, key, value] = /^([a-z]+)=(.*)$/.exec(word) ?? []
    return key === undefined || value === undefined ? [] : [[key, value] as const]
  })
  return {
    kind,
    text,
    name: parts.filter((word) => !/^[a-z]+=/.test(word)).join(' '),
    options: new Map(pairs),
  }
}

const REFERENCE = /^([0-9]{2}-[a-z0-9-]+)\/([a-z0-9-]+)#(\d+)$/

/**
 * Resolves `02-ipvs/web#1` (the first fence of step web in lab 02-ipvs; `start` and `done` name the
 * fences before the first and after the last step), with `lines` like `1-2` for a part of it.
 * `readLab` returns the text of a lab's folder, or undefined if there is none. Throws Error with
 * the reference and the existing fences.
 */
export function resolveFence(
  reference: string,
  lines: string | undefined,
  readLab: (folder: string) => LabText | undefined,
): string {
  const [, folder, step, number] = REFERENCE.exec(reference) ?? []
  if (!folder || !step || !number) {
    throw new Error(`"${reference}" is not a reference to a fence such as "02-ipvs/web#1"`)
  }
  const lab = readLab(folder)
  if (!lab)
    throw new Error(`"${reference}" names a lab that does not exist, labs/${folder}/README.md`)
  const fences = fencesOf(lab, step)
  const fence = fences[Number(number) - 1]
  if (!fence) {
    throw new Error(
      `"${reference}" does not exist: labs/${folder}/README.md has ${fences.length} fences of "${step}"`,
    )
  }
  const commands = lines === undefined ? fence : pick(fence, lines, reference)
  return commands
    .split('\n')
    .flatMap((line) => foldCommand(line))
    .join('\n')
}

function fencesOf({ fences }: LabText, step: string): string[] {
  const first = fences.findIndex((fence) => fence.step !== undefined)
  const own = fences.filter(
    (fence, index) => (fence.step ?? (index < first ? 'start' : 'done')) === step,
  )
  return own.map(({ commands }) => commands)
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

const HTML: Readonly<Record<string, (directive: Directive) => string>> = {
  figure: ({ name, options }) => figureHtml(drawFigure(name, options)),
  fence: ({ name, options }) =>
    codeHtml(resolveFence(name, options.get('lines'), labText), `Commands of ${name}`),
  rules: (directive) => codeHtml(rulesOf(directive), `The chain ${directive.name}`),
  labs: ({ options }) =>
    markdown.render(labTable(Number(options.get('from') ?? 1), Number(options.get('to') ?? 99))),
  plan: ({ name }) => markdown.render(workshopTable(workshopPlanOf(name))),
}

/**
 * What replaces a directive in its slide. Throws Error for an unknown directive or reference, and
 * for a figure that does not fit.
 */
export function directiveHtml(directive: Directive): string {
  const html = HTML[directive.kind]
  if (!html)
    throw new Error(
      `"${directive.kind}" is not a directive; use ${Object.keys(HTML).join(', ')} or notes`,
    )
  return html(directive)
}

const codeHtml = (code: string, label: string): string =>
  `<pre aria-label="${escapeText(label)}"><code>${escapeText(code)}</code></pre>\n`

const figureHtml = ({ wide, tall, label }: Figure): string =>
  `<figure role="img" aria-label="${escapeText(label)}">${svgHtml(wide, 'wide')}${svgHtml(tall, 'tall')}</figure>\n`

const svgHtml = ({ width, height, body }: Drawing, kind: string): string =>
  `<svg class="${kind}" viewBox="0 0 ${width} ${height}" aria-hidden="true">${body}</svg>`

function labText(folder: string): LabText | undefined {
  return listLabs().some((lab) => lab.folder === folder) ? readLabText(folder) : undefined
}

/** A chain of a recording, without the long comments. */
function rulesOf({ name, options }: Directive): string {
  const recording = options.get('recording') ?? ''
  const table = options.get('table') ?? 'nat'
  const chain = readRecording(recording).state.iptables.get(table)?.get(name)
  if (!chain) throw new Error(`"${recording}" has no chain "${name}" in the table ${table}`)
  if (chain.rules.length === 0)
    throw new Error(`"${recording}" has no rule in the chain "${name}" of the table ${table}`)
  const scale = chain.rules.length > 4 ? 1 : FOLD_SCALE
  return chain.rules
    .map(({ spec }) =>
      `-A ${name} ${spec}`.replace(/ -m comment --comment (?:"(?:\\.|[^"\\])*"|\S+)/, ''),
    )
    .flatMap((rule) => foldCommand(rule, { end: '', scale }))
    .join('\n')
}

/** The labs from one number to another: eleven rows are too many for a slide. */
function labTable(from: number, to: number): string {
  const shown = listLabs().filter(({ number }) => number >= from && number <= to)
  const rows = shown.map(({ number }) => {
    const { title, minutes } = readLab(number)
    return `| ${number} | ${title} | ${minutes} |`
  })
  return ['| lab | topic | minutes |', '|---|---|---|', ...rows].join('\n')
}
