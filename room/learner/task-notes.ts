// A room's tasks in the learner's cluster: in the lab's notes, which every later capture contains.

import * as z from 'zod'
import type { Cluster } from '../../cluster/driver.ts'
import type { KubeClient } from '../../cluster/kube-client.ts'
import { notesName, readConfigMap, writeNotes } from '../../grading/lab-notes.ts'
import { type Snapshot, stateOf } from '../../grading/snapshot.ts'
import type { RoomTask } from '../protocol.ts'
import { isTaskRight, nodeOfTask, taskNumber, taskText } from '../tasks.ts'

/** The key of a task in a lab's notes. */
const taskKey = (id: string): string => `room-task.${id}`

/** A task as the notes have it; the nonce proves that the capture is later than the task. */
const taskNoteSchema = z.object({
  nonce: z.string(),
  task: z.string(),
  node: z.string(),
  at: z.string(),
  /** What the node held when the task came. */
  before: z.number(),
  answer: z.string().optional(),
  answeredAt: z.string().optional(),
  after: z.number().optional(),
})
type TaskNote = z.infer<typeof taskNoteSchema>

/** A lab on a cluster, in whose notes the tasks are. */
export interface TaskPlace {
  cluster: Cluster
  client: KubeClient
  lab: number
  snapshot(): Promise<Snapshot>
}

async function readNumber(
  place: TaskPlace,
  task: RoomTask,
): Promise<{ node: string; count: number }> {
  const node = nodeOfTask(task, await place.cluster.nodes())
  if (node === undefined) throw new Error('The cluster has no nodes.')
  const snapshot = await place.snapshot()
  return { node, count: taskNumber(task, stateOf(snapshot.node(node))) }
}

/**
 * Stores a task that has come, unless it is there, and returns its question. Throws if the cluster
 * can't be read or written to.
 */
export async function noteTask(place: TaskPlace, task: RoomTask): Promise<string> {
  const before = await readTaskNote(place, task.id)
  if (before) return taskText(task, before.node)
  const { node, count } = await readNumber(place, task)
  const at = new Date().toISOString()
  await keep(place, task.id, { nonce: task.nonce, task: task.task, node, at, before: count })
  return taskText(task, node)
}

/** Judges an answer by what the node held when the task came and holds now, and stores both. */
export async function answerTaskNote(
  place: TaskPlace,
  task: RoomTask,
  text: string,
): Promise<{ isRight: boolean; found: string }> {
  const note = await readTaskNote(place, task.id)
  if (!note)
    throw new Error('The task is not in the notes of this lab: the lab was reset since it came.')
  const { count: after } = await readNumber(place, task)
  const answeredAt = new Date().toISOString()
  await keep(place, task.id, { ...note, answer: text, answeredAt, after })
  const found = note.before === after ? String(after) : `${note.before} to ${after}`
  return { isRight: isTaskRight(text, note.before, after), found }
}

function keep({ client, lab }: TaskPlace, id: string, note: TaskNote): Promise<void> {
  return writeNotes(client, lab, { [taskKey(id)]: JSON.stringify(note) })
}

async function readTaskNote({ client, lab }: TaskPlace, id: string): Promise<TaskNote | undefined> {
  const text = (await readConfigMap(client, notesName(lab)))?.[taskKey(id)]
  return text === undefined ? undefined : taskNoteSchema.safeParse(JSON.parse(text)).data
}

/** The lab, of those that were begun on a cluster, whose notes have a task. */
export async function labWithTask(client: KubeClient, labs: readonly number[], id: string) {
  for (const lab of labs)
    if ((await readConfigMap(client, notesName(lab)))?.[taskKey(id)] !== undefined) return lab
  return undefined
}
