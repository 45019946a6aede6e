import { parseClaims, parseLab, type WrittenLab } from '../../grading/lab-definition.ts'
import { type Complaint, type CourseFiles, type LabFiles, oneLine, UNWRITTEN } from './course-files.ts'
import { lintText, textOf } from './lint-text.ts'

const file = 'labs/claims.yaml'

/** Each step proves a claim, and each claim is proven by steps that exist. */
function lintClaims({ claims: text }: CourseFiles, labs: ReadonlyMap<string, WrittenLab>): Complaint[] {
  let claims: Record<string, string[]>
  try {
    claims = parseClaims(text)
  } catch (error) {
    return [{ file, text: oneLine(error) }]
  }
  const steps = [...labs].flatMap(([folder, { steps }]) => steps.map(({ id }) => `${Number(folder.slice(0, 2))}/${id}`))
  const proving = new Set(Object.values(claims).flat())
  return [
    ...steps
      .filter((step) => !proving.has(step))
      .map((step) => ({ file, text: `step ${step} proves no claim: add it to a claim, or remove it from the lab.` })),
    ...Object.entries(claims).flatMap(([claim, places]) =>
      places
        .filter((place) => !steps.includes(place))
        .map((place) => ({ file, text: `claim ${claim} names ${place}, which is not a step.` })),
    ),
  ]
}

/** The command as the text shows it: the reader has to find the answer that the solution computes. */
const withoutAnswer = (command: string) => command.replace(/^(make answer .*?\bA=).*$/, "$1'…'")

/** The reference solution has an entry for each step, in order, and its commands are in the text of that step. */
function lintSolution(lab: LabFiles, { steps }: WrittenLab): Complaint[] {
  const file = `labs/${lab.folder}/solution.ts`
  const { solution } = lab
  if (solution === undefined) return []
  if (solution instanceof Error) return [{ file, text: `can't be loaded: ${oneLine(solution)}` }]
  const ids = steps.map(({ id }) => id)
  const own = Object.keys(solution.steps)
  const text = textOf(lab, `labs/${lab.folder}/README.md`)
  const fences = text === undefined || text instanceof Error ? undefined : text.fences
  return [
    ...(own.join() === ids.join()
      ? []
      : [
          {
            file,
            text: `must have the steps ${ids.join(', ')} in this order; it has ${own.join(', ') || 'none'}.`,
          },
        ]),
    ...Object.entries(solution.steps).flatMap(([id, { commands, cleanup }]) => {
      const typed = fences?.filter(({ step }) => step === id).flatMap((fence) => fence.commands.split('\n'))
      const absent = [...commands, ...(cleanup?.commands ?? [])].filter(
        (command) => typed && !typed.includes(command) && !typed.includes(withoutAnswer(command)),
      )
      return absent.map((command) => ({
        file,
        text: `step "${id}" runs "${command}", which no fence of its section in the README contains.`,
      }))
    }),
  ]
}

const POINTS = 100
const COMMAND = /`[^`]*(?:make|kubectl|ipt|ipv|ips|iptables|ipvsadm|ipset) [^`]+`/

/** Points add up to 100, hints go from general to the command, titles are different sentences. */
function lintSteps({ folder }: LabFiles, { steps }: WrittenLab): Complaint[] {
  const file = `labs/${folder}/lab.yaml`
  const complain = (text: string): Complaint => ({ file, text })
  const points = steps.reduce((sum, step) => sum + step.points, 0)
  const titles = steps.map(({ title }) => title)
  return [
    ...(points === POINTS ? [] : [complain(`the points of its steps add up to ${points}, not ${POINTS}.`)]),
    ...steps.flatMap(({ id, title, hints }, index) => [
      ...(titles.indexOf(title) === index ? [] : [complain(`step "${id}" has the same title as another step.`)]),
      ...(COMMAND.test(hints.at(-1) ?? '') ? [] : [complain(`the last hint of step "${id}" must show a command.`)]),
      ...(COMMAND.test(hints[0] ?? '') ? [complain(`the first hint of step "${id}" must not show a command.`)] : []),
      ...(new Set(hints).size === hints.length ? [] : [complain(`step "${id}" has the same hint twice.`)]),
    ]),
  ]
}

/**
 * Checks the course's files for missing files, steps without hints, points, claims or text, and unknown commands. Pure;
 * `--run` also runs labs on a cluster.
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
    .map(([file]) => ({
      file,
      text: `is missing: a lab consists of lab.yaml, README.md, solution.ts and a spec of the same name.`,
    }))
}

function lintDefinition({ folder, definition }: LabFiles): { definition?: WrittenLab; complaints: Complaint[] } {
  const file = `labs/${folder}/lab.yaml`
  if (definition === undefined) return { complaints: [] }
  try {
    const read = parseLab(definition, file)
    const complaints =
      read.id === Number(folder.slice(0, 2))
        ? []
        : [{ file, text: `id is ${read.id}, but the folder has another number.` }]
    return { definition: read, complaints }
  } catch (error) {
    return { complaints: [{ file, text: oneLine(error) }] }
  }
}

function lintSpec({ folder, definition, spec }: LabFiles): Complaint[] {
  if (!(spec instanceof Error) || definition === undefined) return []
  return [{ file: `checks/${folder}.check.ts`, text: `can't be loaded: ${oneLine(spec)}` }]
}

/** The project's README lists every lab. */
function lintOverview({ folder }: LabFiles, definition: WrittenLab | undefined, { readme }: CourseFiles): Complaint[] {
  const row = readme.split('\n').find((line) => line.startsWith('|') && line.includes(`labs/${folder}/README.md`))
  if (row === undefined) return [{ file: 'README.md', text: `its table of labs has no row for labs/${folder}.` }]
  if (!definition || row.trimEnd().endsWith(`| ${definition.minutes} |`)) return []
  return [{ file: 'README.md', text: `the row of labs/${folder} must end with its ${definition.minutes} minutes.` }]
}

function lintMarks({ sources }: LabFiles): Complaint[] {
  return Object.entries(sources).flatMap(([path, text]) => {
    const line = text.split('\n').findIndex((candidate) => candidate.includes(UNWRITTEN))
    return line === -1 ? [] : [{ file: `${path}:${line + 1}`, text: `text is still to be written (${UNWRITTEN}).` }]
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
