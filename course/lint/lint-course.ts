import { parseLab, type WrittenLab } from '../../grading/lab-definition.ts'
import { type Complaint, oneLine, UNWRITTEN } from './complaint.ts'
import type { CourseFiles, LabFiles } from './course-files.ts'
import { lintClaims } from './lint-claims.ts'
import { lintSolution } from './lint-solution.ts'
import { lintSteps } from './lint-steps.ts'
import { lintText } from './lint-text.ts'

/**
 * Everything that is wrong with the course as it is written: files that miss their partner, steps without hints, points,
 * claims or text, commands that do not exist. Pure; what a lab does on a cluster is for `--run`.
 */
export function lintCourse(course: CourseFiles): Complaint[] {
  const written = new Map<string, WrittenLab>()
  const complaints = course.labs.flatMap((lab) => {
    const { definition, complaints } = lintDefinition(lab)
    if (definition) written.set(lab.folder, definition)
    return [
      ...lintPairing(lab),
      ...complaints,
      ...lintSpec(lab),
      ...(definition
        ? [...lintSteps(lab, definition), ...lintText(lab, definition, course), ...lintSolution(lab, definition)]
        : []),
      ...lintOverview(lab, definition, course),
      ...lintMarks(lab),
    ]
  })
  return [...complaints, ...lintNumbers(course), ...lintClaims(course, written)]
}

function lintPairing({ folder, definition, text, solution, spec }: LabFiles): Complaint[] {
  const parts = {
    [`labs/${folder}/lab.yaml`]: definition,
    [`labs/${folder}/README.md`]: text,
    [`labs/${folder}/solution.ts`]: solution,
    [`checks/${folder}.check.ts`]: spec,
  }
  return Object.entries(parts)
    .filter(([, part]) => part === undefined)
    .map(([file]) => ({ file, text: `is missing: a lab is lab.yaml, README.md, solution.ts and a spec of one name.` }))
}

function lintDefinition({ folder, definition }: LabFiles): { definition?: WrittenLab; complaints: Complaint[] } {
  const file = `labs/${folder}/lab.yaml`
  if (definition === undefined) return { complaints: [] }
  try {
    const read = parseLab(definition, file)
    const complaints =
      read.id === Number(folder.slice(0, 2)) ? [] : [{ file, text: `id is ${read.id}, its folder says otherwise.` }]
    return { definition: read, complaints }
  } catch (error) {
    return { complaints: [{ file, text: oneLine(error) }] }
  }
}

function lintSpec({ folder, definition, spec }: LabFiles): Complaint[] {
  if (!(spec instanceof Error) || definition === undefined) return []
  return [{ file: `checks/${folder}.check.ts`, text: `can't be loaded: ${oneLine(spec)}` }]
}

/** Whoever looks for a lab begins in the README of the project. */
function lintOverview({ folder }: LabFiles, definition: WrittenLab | undefined, { readme }: CourseFiles): Complaint[] {
  const row = readme.split('\n').find((line) => line.startsWith('|') && line.includes(`labs/${folder}/README.md`))
  if (row === undefined) return [{ file: 'README.md', text: `its table of labs has no row for labs/${folder}.` }]
  if (!definition || row.trimEnd().endsWith(`| ${definition.minutes} |`)) return []
  return [{ file: 'README.md', text: `the row of labs/${folder} must end with its ${definition.minutes} minutes.` }]
}

function lintMarks({ sources }: LabFiles): Complaint[] {
  return Object.entries(sources).flatMap(([path, text]) => {
    const line = text.split('\n').findIndex((candidate) => candidate.includes(UNWRITTEN))
    return line === -1
      ? []
      : [{ file: `${path}:${line + 1}`, text: `something is still to be written (${UNWRITTEN}).` }]
  })
}

function lintNumbers({ labs }: CourseFiles): Complaint[] {
  return labs.flatMap(({ folder }, index) => {
    const first = labs.findIndex((lab) => lab.folder.slice(0, 2) === folder.slice(0, 2))
    return first === index
      ? []
      : [{ file: `labs/${folder}`, text: `has the number of labs/${labs[first]?.folder}; choose another.` }]
  })
}
