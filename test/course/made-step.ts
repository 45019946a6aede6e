// A step that is added to a lab in memory, as `make new-step` adds it to the files.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { filesOfLab } from '../../course/lint/course-files.ts'
import {
  answerNames,
  filesOfStep,
  isByStep,
  tablesIn,
  withNewStep,
  writtenPacket,
} from '../../course/lint/new-step.ts'
import { stepModule } from '../../course/lint/new-step-templates.ts'
import { type NewStep, readDraft, stepDraft } from '../../course/lint/step-draft.ts'
import { stepReference } from '../../course/lint/step-reference.ts'
import { parseLab } from '../../grading/lab-definition.ts'
import { projectRoot } from '../../host/layout.ts'

/** The step that tests add to a lab. */
export const ID = 'made-here'

type Asked = Partial<Pick<NewStep, 'asks' | 'claim'>> & { beginsClaim?: boolean }

/** What an author writes instead of the marks of a draft. */
const WRITTEN: [mark: string, text: string][] = [
  ['✎ A sentence that is true once', 'What is asserted here is true once'],
  ['✎ What is asked?', 'Which of the two is it here?'],
  ['✎ Why it matters, in a sentence or two.', 'It matters for a reason that is told.'],
  ['✎ A general hint without a command.', 'Look at the nodes.'],
  ['✎ The command, as in', 'Run'],
  ['✎ what is broken: ✎ the commands that break it', 'the set is emptied: ipset flush X'],
  ['✎ a typical wrong answer', 'neither'],
  ['✎ the commands', 'kubectl get service web'],
]
export const fill = (draft: string) =>
  WRITTEN.reduce((text, [mark, written]) => text.replaceAll(mark, written), draft)
    .replaceAll('✎ as A7', 'A7')
    .replaceAll('✎ ', '')

export const readSource = (path: string): string =>
  existsSync(join(projectRoot, path)) ? readFileSync(join(projectRoot, path), 'utf8') : ''

/**
 * The files of a lab, the draft of a step as its author has written it, and the files of a copy
 * with this step.
 */
export function withStep(
  folder: string,
  after: string,
  { asks, claim = 'A7', beginsClaim = false }: Asked = {},
  edit: (draft: string) => string = (draft) => draft,
) {
  const files = filesOfStep(folder, ID)
  const paths = Object.values(files).filter((path) => existsSync(join(projectRoot, path)))
  const sources: Record<string, string> = Object.fromEntries(
    paths.map((path) => [path, readFileSync(join(projectRoot, path), 'utf8')]),
  )
  const { definition } = filesOfLab(folder)
  const lab = parseLab(sources[definition] ?? '', definition)
  const number = Number(folder.slice(0, 2))
  sources[files.module] = stepModule({ id: ID, asks, lab: number })
  const needs = lab.steps.find(({ id }) => id === after)?.needs ?? []
  const read = (path: string) => sources[path] ?? readSource(path)
  const place = {
    folder,
    needs,
    beginsClaim,
    ...tablesIn(read(files.breakages)),
    isByStep: isByStep(read(files.test)),
    answers: answerNames(read(files.solution)),
    packet: writtenPacket(read(files.packets), number, after),
    reference: stepReference(number, after, files, read),
  }
  const begun = stepDraft({ after, id: ID, asks, claim }, place)
  const draft = readDraft(edit(fill(begun)), ID, number)
  return { begun, draft, lab, sources, changed: withNewStep(draft, folder, lab, sources) }
}
