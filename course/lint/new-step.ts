import { Refusal } from '../../dataplane/refusal.ts'
import type { WrittenLab } from '../../grading/lab-definition.ts'
import { filesOfLab } from './course-files.ts'

/** What `make new-step` is given. */
export interface NewStep {
  /** The step that it follows. */
  after: string
  id: string
}

const ID = /^[a-z][a-z0-9-]*$/
const NEXT_CHECK = /^ {2}(?:step|liveStep|question|observe)\(|^\}\)/m
const NEXT_ENTRY = /^ {4}(?:'[a-z]|[a-z.])|^ {2}\},?$/m

/** Why a step can't be added, one sentence for each fault; empty if it can. */
export function faultsOfNewStep({ after, id }: NewStep, { steps }: WrittenLab): string[] {
  const ids = steps.map((step) => step.id)
  const faults: string[] = []
  if (!ids.includes(after))
    faults.push(`AFTER="${after}" is not a step of the lab: its steps are ${ids.join(', ')}`)
  if (!ID.test(id))
    faults.push(`ID="${id}" is not an id: use small letters, digits and "-", as in ID=node-port`)
  else if (ids.includes(id)) faults.push(`ID="${id}" is a step of the lab already`)
  return faults
}

/**
 * The files of a lab with one more step, by path: its definition, section, check and reference solution, marked for the linter
 * until they are written. Later sections are numbered again. Pure.
 * @throws Refusal when a file does not contain the step that the new one follows
 */
export function withNewStep(
  step: NewStep,
  folder: string,
  sources: Readonly<Record<string, string>>,
): Record<string, string> {
  const { definition, text, spec, solution } = filesOfLab(folder)
  const edit = (file: string, change: (source: string, file: string) => string) => [
    file,
    change(sources[file] ?? '', file),
  ]
  const { after, id } = step
  return Object.fromEntries([
    edit(definition, (source, file) => {
      const found = new RegExp(`^ {2}- id: ${after}\\n`, 'm')
      return insert(source, { found, next: /^ {2}- id: |^\S/m, file, after }, definitionOf(id))
    }),
    edit(text, (source, file) => {
      const found = new RegExp(`^<!-- step: ${after} -->\\n`, 'm')
      const place = { found, next: /^## /m, file, after }
      return numbered(insert(source, place, sectionOf(id)))
    }),
    edit(spec, (source, file) => {
      const found = new RegExp(`\\b(?:step|liveStep|question)\\(\\s*'${after}'`, 'm')
      return importsFail(insert(source, { found, next: NEXT_CHECK, file, after }, checkOf(id)))
    }),
    edit(solution, (source, file) => {
      const found = new RegExp(`^ {4}(?:'${after}'|${after})(?=[:,])`, 'm')
      return insert(source, { found, next: NEXT_ENTRY, file, after }, entryOf(id))
    }),
  ])
}

interface Place {
  found: RegExp
  /** What begins after the part that was found. */
  next: RegExp
  file: string
  after: string
}

function insert(source: string, { found, next, file, after }: Place, added: string): string {
  const match = found.exec(source)
  if (!match)
    throw new Refusal(
      `${file} has no part for step "${after}" that begins as in other labs: add the new step by hand, as CONTRIBUTING.md says.`,
    )
  const start = match.index + match[0].length
  const length = source.slice(start).search(next)
  const end = length === -1 ? source.length : start + length
  const before = source.slice(0, end)
  return `${before.endsWith('\n') ? before : `${before}\n`}${added}${source.slice(end)}`
}

const definitionOf = (id: string) => `  - id: ${id}
    title: ✎ A sentence that is true once the step ${id} is solved
    points: 1
    why: ✎ Why it matters, in a sentence or two.
    hints:
      - ✎ A general hint without a command.
      - ✎ The command, as in \`make web\`.

`

const sectionOf = (id: string) => `## 0. ✎ What the step is about

<!-- step: ${id} -->

✎ The reason first, then the commands.

\`\`\`bash
✎ the commands
\`\`\`

**What you saw.** ✎ What the commands printed, and what follows from it.

`

const checkOf = (
  id: string,
) => `  // ✎ Compare with the prediction, in both directions, or probe with a real packet.
  step('${id}', () =>
    fail({ inspect: 'make status', expected: 'a check of ${id}', actual: 'none is written' }),
  )
`

const entryOf = (id: string) =>
  `    ${id.includes('-') ? `'${id}'` : id}: { commands: ['✎ the commands'] },\n`

/** Numbers the headings of sections in their order. */
function numbered(text: string): string {
  let number = 0
  return text.replace(/^## \d+\. /gm, () => `## ${++number}. `)
}

/** The import of `fail`, at its place in the order of the others. */
function importsFail(source: string): string {
  const named = /^import \{([^}]*)\} from '\.\.\/grading\/failure\.ts'$/m.exec(source)
  if (named?.[1] !== undefined) {
    const names = new Set([...named[1].split(',').map((name) => name.trim()), 'fail'])
    const sorted = [...names].filter((name) => name !== '').sort()
    return source.replace(named[0], `import { ${sorted.join(', ')} } from '../grading/failure.ts'`)
  }
  const earlier = [...source.matchAll(/^\} from '(.+)'$|^import .* from '(.+)'$/gm)].filter(
    ([, wrapped, path = wrapped ?? '']) => path.startsWith('../') && path < '../grading/failure.ts',
  )
  const last = earlier.at(-1)
  const at = last ? last.index + last[0].length + 1 : 0
  const line = "import { fail } from '../grading/failure.ts'\n"
  return source.slice(0, at) + line + source.slice(at)
}
