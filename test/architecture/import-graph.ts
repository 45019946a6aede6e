// Which file of the product imports which, also as a type and by `import(…)`.

import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { projectRoot } from '../../host/layout.ts'

/**
 * From the bottom to the top: a folder imports from those above it in this list, never from those
 * below.
 */
const LAYERS = [
  'dataplane',
  'host',
  'embedded',
  'cluster',
  'grading',
  'course',
  'labs',
  'checks',
  'slides',
  'instructors',
  'web',
  'guide',
  'room',
]
/** Nothing imports from these. */
export const TOP = ['bench', 'scripts']

export const layers = [...LAYERS, ...TOP]
export const folderOf = (file: string) => file.split('/')[0] ?? ''

export const files = execFileSync(
  'git',
  ['ls-files', '--cached', '--others', '--exclude-standard', '*.ts', '*.tsx'],
  { cwd: projectRoot, encoding: 'utf8' },
)
  .split('\n')
  .filter((file) => layers.includes(folderOf(file)) && !file.startsWith('embedded/test/'))

export const textOf = (file: string) => readFileSync(join(projectRoot, file), 'utf8')

const IMPORT =
  /^(?:import|export) (?:[^'`]*? from )?'(\.[^']+\.tsx?)'|import\('(\.[^']+\.tsx?)'\)/gm

const importsOf = (file: string): string[] =>
  [...textOf(file).matchAll(IMPORT)].map(([, named, loaded]) =>
    join(dirname(file), named ?? loaded ?? ''),
  )

export const imports = new Map(files.map((file) => [file, importsOf(file)]))
