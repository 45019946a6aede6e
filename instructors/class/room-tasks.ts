// The tasks that a room has given (`tasks.json` of its folder), and whether a learner's captures
// have them.

import * as z from 'zod'
import type { Capture } from '../../cluster/capture-folder.ts'
import { asApiObjects } from '../../grading/api-object.ts'
import { Refusal } from '../../host/main.ts'
import { readPlainFile } from '../../host/plain-file.ts'
import type { Flag } from './result.ts'

const assignedTaskSchema = z.object({
  learner: z.string(),
  /** What the task asked for. */
  task: z.string(),
  /** The lab in whose notes it was written; absent where the learner's guide has shown none. */
  lab: z.number().optional(),
  nonce: z.string().regex(/^[0-9a-f]{16}$/),
  givenAt: z.number(),
})
export type AssignedTask = z.infer<typeof assignedTaskSchema>

/** Reads the file. Throws Refusal if it is not that of a room. */
export function readAssignedTasks(file: string): AssignedTask[] {
  try {
    return z.array(assignedTaskSchema).parse(JSON.parse(readPlainFile(file)))
  } catch {
    throw new Refusal(
      `"${file}" is not the tasks of a room: take \`tasks.json\` of its folder, which *Export* writes.`,
    )
  }
}

/** The key of a task in a lab's notes (room/learner/task-notes.ts). */
const TASK_NOTE = /^room-task\./

/** The random numbers of the tasks that a capture has in the notes of a lab. */
function noncesIn({ objects }: Capture, lab: number): Set<string> {
  const notes = asApiObjects(objects.items as unknown[]).find(
    ({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === `lab-${lab}`,
  )
  const texts = Object.entries(notes?.data ?? {}).filter(([key]) => TASK_NOTE.test(key))
  return new Set(texts.flatMap(([, text]) => /"nonce":"([0-9a-f]{16})"/.exec(text)?.[1] ?? []))
}

/** A flag if captures that were taken after a task of this learner lack it. */
export function taskFlags(
  captures: Iterable<readonly [id: string, { takenAt: number; capture: Capture }]>,
  { learner, lab }: { learner: string; lab: number },
  assigned: readonly AssignedTask[],
): Flag[] {
  const own = assigned.filter(
    (task) => task.learner.toLowerCase() === learner.toLowerCase() && task.lab === lab,
  )
  const lacking = [...captures].filter(([, { takenAt, capture }]) => {
    const due = own.filter(({ givenAt }) => givenAt < takenAt)
    if (due.length === 0) return false
    const nonces = noncesIn(capture, lab)
    return due.some(({ nonce }) => !nonces.has(nonce))
  })
  if (lacking.length === 0) return []
  const ids = lacking.map(([id]) => id)
  const which = ids.length > 4 ? `${ids.slice(0, 4).join(', ')} and more` : ids.join(', ')
  return [
    {
      kind: 'task',
      text: `Its captures ${which} were taken after a task of the room and lack its note: another cluster, or a lab that was reset since.`,
    },
  ]
}
