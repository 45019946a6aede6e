import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { projectRoot } from '../../host/layout.ts'
import { cardOf, filesOfLab } from './course-files.ts'

/** Allowed names of a new lab: `tcpdump`, or `07-tcpdump` with a chosen number. */
const NAME = /^(?:(\d\d)-)?([a-z][a-z0-9-]{1,29}[a-z0-9])$/

/**
 * The folder of a new lab, numbered after the last one unless the name contains a number.
 * @throws Error with a sentence for people when the name or the number can't be used
 */
export function newFolder(name: string, folders: readonly string[]): string {
  const [, requested, stem] = NAME.exec(name) ?? []
  if (stem === undefined)
    throw new Error(
      `"${name}" is not a valid name for a lab: use lower case, as in make new-lab NAME=packet-captures.`,
    )
  const taken = folders.map((folder) => Number(folder.slice(0, 2)))
  const number = requested === undefined ? Math.max(0, ...taken) + 1 : Number(requested)
  if (number < 1 || number > 99)
    throw new Error(`There is no lab number "${number}": labs are 01 to 99.`)
  const holder = folders.find((folder) => Number(folder.slice(0, 2)) === number)
  if (holder)
    throw new Error(
      `labs/${holder} already has the number ${number}: choose another one, or omit it.`,
    )
  return `${String(number).padStart(2, '0')}-${stem}`
}

/** Where each template of course/lint/new-lab goes. */
function templateTargets(folder: string): Record<string, string> {
  const { definition, text, solution, spec } = filesOfLab(folder)
  const test = `test/labs/lab-${Number(folder.slice(0, 2))}-text.test.ts`
  return {
    'lab.yaml': definition,
    'README.md': text,
    'CARD.md': cardOf(folder),
    'solution.ts': solution,
    'check.ts': spec,
    'text.test.ts': test,
  }
}

/**
 * The files of a new lab with one step, by path. They can be loaded; the linter reports their marks
 * (UNWRITTEN) until they are replaced.
 */
export function scaffold(folder: string): Record<string, string> {
  const values: Readonly<Record<string, string>> = {
    folder,
    number: String(Number(folder.slice(0, 2))),
  }
  const files = Object.entries(templateTargets(folder)).map(([name, place]) => {
    const text = readFileSync(join(projectRoot, 'course/lint/new-lab', `${name}.template`), 'utf8')
    return [place, text.replace(/\{\{(\w+)\}\}/g, (_, key: string) => values[key] ?? '')]
  })
  return Object.fromEntries(files)
}
