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
export function lintText(lab: LabFiles, { steps }: WrittenLab, course: CourseFiles): Complaint[] {
  const file = `labs/${lab.folder}/README.md`
  const text = textOf(lab, file)
  if (text === undefined) return []
  if (text instanceof Error) return [{ file, text: oneLine(text) }]
  const { sections, fences } = text
  const ids = steps.map(({ id }) => id)
  const missing = ids.filter((id) => !sections.has(id))
  const unknown = [...sections.keys()].filter((id) => !ids.includes(id))
  const inOrder = [...sections.keys()].join() === ids.join()
  return [
    ...missing.map((id) => ({ file, text: `has no section for step "${id}" (<!-- step: ${id} -->).` })),
    ...unknown.map((id) => ({ file, text: `has a section for "${id}", which is not a step of the lab.` })),
    ...(inOrder || missing.length + unknown.length > 0
      ? []
      : [{ file, text: 'its sections must be in the order of the steps.' }]),
    ...[...sections].flatMap(([id, section]) =>
      section.includes(SEEN) ? [] : [{ file, text: `the section of step "${id}" must contain ${SEEN}` }],
    ),
    ...fences.flatMap((fence) => lintFence(file, fence, course)),
  ]
}

export function textOf({ text }: LabFiles, file: string): LabText | Error | undefined {
  if (text === undefined) return undefined
  try {
    return parseLabText(text, file)
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error))
  }
}

function lintFence(file: string, { commands, line }: Fence, { makefile, exists }: CourseFiles): Complaint[] {
  const targets = new Set([...makefile.matchAll(/^([a-z][a-z0-9-]*?)(?:-%)?:/gm)].map(([, name]) => name))
  const place = `${file}:${line}`
  const absent = [...commands.matchAll(MAKE)].map(([, name = '']) => name).filter((name) => !targets.has(name))
  const nodes = [...commands.matchAll(NODE_NAME)].map(([name]) => name)
  const manifests = [...commands.matchAll(MANIFEST)].map(([, path = '']) => path).filter((path) => !exists(path))
  return [
    ...absent.map((name) => ({ file: place, text: `"make ${name}" is not a target of the Makefile.` })),
    ...nodes.map((name) => ({
      file: place,
      text: `"${name}" exists only in a cluster without NAME=; get a node's name with kubectl.`,
    })),
    ...manifests.map((path) => ({ file: place, text: `the file "${path}" does not exist.` })),
  ]
}
