import type { WrittenLab } from '../../grading/lab-definition.ts'
import { type Fence, type LabText, parseLabText } from '../lab-text.ts'
import { type Complaint, type CourseFiles, type LabFiles, oneLine } from './course-files.ts'

const SEEN = '**What you saw.**'
const MAKE = /\bmake (?:-s )?([a-z][a-z0-9-]*?)(?:-\d+)?(?=[ )"';|]|$)/gm
/** The name of a node of the cluster that `make up` starts without NAME. */
const NODE_NAME = /\bk8s-guide-(?:worker\d*|control-plane)\b/g
/** A manifest file; `-` is standard input. */
const MANIFEST = /\bkubectl [a-z]+ -f (?!-)(\S+)/g

/** The text has a section for each step, in order, with the observed output; its commands and files exist. */
export function* lintText(lab: LabFiles, { steps }: WrittenLab, course: CourseFiles): Generator<Complaint> {
  const file = `labs/${lab.folder}/README.md`
  const text = textOf(lab, file)
  if (text === undefined) return
  if (text instanceof Error) return yield { file, text: oneLine(text) }
  const ids = steps.map(({ id }) => id)
  const own = [...text.sections.keys()]
  const missing = ids.filter((id) => !own.includes(id))
  const unknown = own.filter((id) => !ids.includes(id))
  for (const id of missing) yield { file, text: `has no section for step "${id}" (<!-- step: ${id} -->).` }
  for (const id of unknown) yield { file, text: `has a section for "${id}", which is not a step of the lab.` }
  if (missing.length + unknown.length === 0 && own.join() !== ids.join())
    yield { file, text: 'its sections must be in the order of the steps.' }
  for (const [id, section] of text.sections)
    if (!section.includes(SEEN)) yield { file, text: `the section of step "${id}" must contain ${SEEN}` }
  for (const fence of text.fences) yield* lintFence(file, fence, course)
}

export function textOf({ text }: LabFiles, file: string): LabText | Error | undefined {
  if (text === undefined) return undefined
  try {
    return parseLabText(text, file)
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error))
  }
}

function* lintFence(path: string, { commands, line }: Fence, { makefile, exists }: CourseFiles): Generator<Complaint> {
  const targets = new Set([...makefile.matchAll(/^([a-z][a-z0-9-]*?)(?:-%)?:/gm)].map(([, name]) => name))
  const file = `${path}:${line}`
  for (const [, name = ''] of commands.matchAll(MAKE))
    if (!targets.has(name)) yield { file, text: `"make ${name}" is not a target of the Makefile.` }
  for (const [name] of commands.matchAll(NODE_NAME))
    yield { file, text: `"${name}" exists only in a cluster without NAME=; get a node's name with kubectl.` }
  for (const [, manifest = ''] of commands.matchAll(MANIFEST))
    if (!exists(manifest)) yield { file, text: `the file "${manifest}" does not exist.` }
}
