import MarkdownIt from 'markdown-it'
import type { GuideLab } from '../../course/lab-progress.ts'
import { listLabs, readLab } from '../../grading/lab-definition.ts'
import type { Block, LabContent } from '../protocol.ts'

/** Raw HTML in a text is shown as text. */
const markdown = new MarkdownIt({ html: false, linkify: false })

/** Languages of fences that a learner types into a shell. */
const TYPED = /^bash\b/

/** A Markdown text as rendered parts and fences; fences inside of lists belong to the rendered part. */
export function blocksOf(text: string): Block[] {
  const tokens = markdown.parse(text, {})
  const blocks: Block[] = []
  let from = 0
  const flush = (to: number) => {
    const html = markdown.renderer.render(tokens.slice(from, to), markdown.options, {})
    if (html.trim() !== '') blocks.push({ kind: 'html', html })
    from = to + 1
  }
  for (const [index, { type, level, info, content }] of tokens.entries()) {
    if (type !== 'fence' || level > 0) continue
    flush(index)
    const language = info.split(/\s+/)[0] ?? ''
    blocks.push({ kind: 'fence', language, text: content.trimEnd(), run: TYPED.test(info) })
  }
  flush(tokens.length)
  return blocks
}

/** The constant content of a lab, in the learner's names. `places` are those of terminals. */
export function labContent({ definition, intro, steps }: GuideLab, places: string[]): LabContent {
  return {
    number: definition.number,
    title: definition.title,
    intro: blocksOf(intro),
    steps: steps.map(({ definition: { id, title, points, question }, task, seen, hints }) => ({
      id,
      title,
      points,
      task: blocksOf(task),
      seen: blocksOf(seen),
      hints: hints.length,
      question,
    })),
    labs: listLabs().map(({ number }) => ({ number, title: readLab(number).title })),
    places,
  }
}
