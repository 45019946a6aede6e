import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { register } from 'tsx/esm/api'
import type { LabSpec } from '../../grading/check-context.ts'
import { projectRoot } from '../../host/layout.ts'
import type { LabSolution } from '../lab-solution.ts'

/** One error in the course's files. */
export interface Complaint {
  /** The file to open, with the line where that is known. */
  file: string
  /** One sentence with the requirement. */
  text: string
}

export const errorOf = (thrown: unknown): Error => (thrown instanceof Error ? thrown : new Error(String(thrown)))

/** The message of a thrown value on one line. */
export const oneLine = (error: unknown) =>
  errorOf(error)
    .message.replace(/\s*\n\s*/g, ' ')
    .slice(0, 400)

/** The mark of a scaffold for text that an author must write. */
export const UNWRITTEN = '✎'

/** The files of one lab; a missing file is undefined. */
export interface LabFiles {
  /** `02-ipvs`, from the folder or from the spec. */
  folder: string
  definition?: string | undefined
  text?: string | undefined
  /** The export of solution.ts, or why it can't be loaded. */
  solution?: LabSolution | Error | undefined
  /** The export of the spec in checks/, or why it can't be loaded. */
  spec?: LabSpec | Error | undefined
  /** The text of every file in the lab's folder and its spec, by path: to find marks of a scaffold. */
  sources: Record<string, string>
}

/** The input of the linter. */
export interface CourseFiles {
  labs: LabFiles[]
  claims: string
  makefile: string
  readme: string
  /** True for a path of the checkout that exists. */
  exists(path: string): boolean
}

const LAB = /^\d\d-[a-z0-9-]+$/

/** Reads the course of this checkout. Errors in it do not throw: the linter reports them. */
export async function readCourse(root = projectRoot): Promise<CourseFiles> {
  // A bundled script has no loader for TypeScript, but must load these sources.
  register()
  const read = (path: string) => (existsSync(join(root, path)) ? readFileSync(join(root, path), 'utf8') : undefined)
  const folders = readdirSync(join(root, 'labs')).filter((name) => LAB.test(name))
  const stems = readdirSync(join(root, 'checks')).flatMap((name) => /^(\d\d-.*)\.check\.ts$/.exec(name)?.[1] ?? [])
  const labs = [...new Set([...folders, ...stems])].sort().map(async (folder): Promise<LabFiles> => {
    const paths = {
      definition: `labs/${folder}/lab.yaml`,
      text: `labs/${folder}/README.md`,
      solution: `labs/${folder}/solution.ts`,
      spec: `checks/${folder}.check.ts`,
    }
    const load = async <Value>(path: string, name: string): Promise<Value | Error | undefined> => {
      if (!existsSync(join(root, path))) return undefined
      return import(join(root, path)).then((module) => module[name]).catch((error) => errorOf(error))
    }
    const sources = Object.values(paths).flatMap((path) => {
      const text = read(path)
      return text === undefined ? [] : [[path, text]]
    })
    return {
      folder,
      definition: read(paths.definition),
      text: read(paths.text),
      solution: await load<LabSolution>(paths.solution, 'solution'),
      spec: await load<LabSpec>(paths.spec, 'default'),
      sources: Object.fromEntries(sources),
    }
  })
  return {
    labs: await Promise.all(labs),
    claims: read('labs/claims.yaml') ?? '',
    makefile: read('Makefile') ?? '',
    readme: read('README.md') ?? '',
    exists: (path) => existsSync(join(root, path)),
  }
}
