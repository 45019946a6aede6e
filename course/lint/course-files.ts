import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { register } from 'tsx/esm/api'
import { projectRoot } from '../../host/layout.ts'
import type { LabSolution } from '../lab-solution.ts'

/** One error in the course's files. */
export interface LintMessage {
  /** The file to open, with the line where that is known. */
  file: string
  /** One sentence with the requirement. */
  text: string
}

/** The message of a thrown value on one line. */
export const oneLine = (error: unknown) =>
  (error instanceof Error ? error.message : String(error)).replace(/\s*\n\s*/g, ' ').slice(0, 400)

/** The mark of a scaffold for text that an author must write. */
export const UNWRITTEN = '✎'

/** The paths of the files that a lab consists of. */
export const filesOfLab = (folder: string) => ({
  definition: `labs/${folder}/lab.yaml`,
  text: `labs/${folder}/README.md`,
  solution: `labs/${folder}/solution.ts`,
  spec: `checks/${folder}.check.ts`,
})

/** Where the claims are, for programs and for readers. */
export const CLAIM_FILES = { claims: 'labs/claims.yaml', curriculum: 'labs/CURRICULUM.md' } as const

/** The page that a learner takes to work. */
export const cardOf = (folder: string) => `labs/${folder}/CARD.md`

/** The slides that are shown before and during the lab. */
export const deckOf = (folder: string) => `slides/${folder}.md`

const DRAFT_END = '.step.md'

/** The draft of a step, from which `make new-step` fills the files of its lab. */
export const draftOf = (folder: string, id: string): string => `labs/${folder}/${id}${DRAFT_END}`

/** One lab as it is written. */
export interface LabFiles {
  /** `02-ipvs`, from the folder or from the spec. */
  folder: string
  /**
   * The text of each of its files that exists, by path; also its card and deck, drafts of steps,
   * the modules of its checks, and what its test breaks.
   */
  sources: Readonly<Record<string, string>>
  /** The export of solution.ts; undefined if it can't be loaded. */
  solution?: LabSolution | undefined
  /** Why the solution or the spec can't be loaded. */
  unloadable: readonly LintMessage[]
}

/** The input of the linter. */
export interface CourseFiles {
  labs: LabFiles[]
  claims: string
  /** labs/CURRICULUM.md, which has a sentence for each claim. */
  curriculum: string
  makefile: string
  readme: string
  /** INSTRUCTORS.md, which has the plans of workshops as tables. */
  instructors: string
  /** True for a path of the checkout that exists. */
  exists(path: string): boolean
}

const LAB = /^\d\d-[a-z0-9-]+$/

/** Reads the course of this checkout. Errors in it do not throw: the linter reports them. */
export async function readCourse(root = projectRoot): Promise<CourseFiles> {
  // A bundled script has no loader for TypeScript, but must load these sources.
  register()
  const read = (path: string) =>
    existsSync(join(root, path)) ? readFileSync(join(root, path), 'utf8') : undefined
  const folders = readdirSync(join(root, 'labs')).filter((name) => LAB.test(name))
  const stems = readdirSync(join(root, 'checks')).flatMap(
    (name) => /^(\d\d-.*)\.check\.ts$/.exec(name)?.[1] ?? [],
  )
  const labs = [...new Set([...folders, ...stems])]
    .sort()
    .map(async (folder): Promise<LabFiles> => {
      const paths = filesOfLab(folder)
      const unloadable: LintMessage[] = []
      const load = async (file: string, name: string) => {
        if (!existsSync(join(root, file))) return undefined
        try {
          const module = await import(join(root, file))
          if (module[name] === undefined) throw new Error(`it has no export "${name}"`)
          return module[name]
        } catch (error) {
          unloadable.push({ file, text: `can't be loaded: ${oneLine(error)}` })
        }
      }
      const [solution] = await Promise.all([
        load(paths.solution, 'solution'),
        load(paths.spec, 'default'),
      ])
      const modules = existsSync(join(root, 'checks', folder))
        ? readdirSync(join(root, 'checks', folder)).map((name) => `checks/${folder}/${name}`)
        : []
      const drafts = existsSync(join(root, 'labs', folder))
        ? readdirSync(join(root, 'labs', folder)).filter((name) => name.endsWith(DRAFT_END))
        : []
      const breakages = `test/labs/lab-${Number(folder.slice(0, 2))}-breakages.ts`
      const written = [
        ...Object.values(paths),
        cardOf(folder),
        deckOf(folder),
        ...modules,
        ...drafts.map((name) => `labs/${folder}/${name}`),
        breakages,
      ]
      const texts = written.map((path) => [path, read(path)])
      const sources = Object.fromEntries(texts.filter(([, text]) => text !== undefined))
      return { folder, sources, solution, unloadable }
    })
  return {
    labs: await Promise.all(labs),
    claims: read(CLAIM_FILES.claims) ?? '',
    curriculum: read(CLAIM_FILES.curriculum) ?? '',
    makefile: read('Makefile') ?? '',
    readme: read('README.md') ?? '',
    instructors: read('INSTRUCTORS.md') ?? '',
    exists: (path) => existsSync(join(root, path)),
  }
}
