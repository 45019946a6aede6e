import type { KubeClient } from '../cluster/kube-client.ts'
import { writeNotes } from '../grading/lab-notes.ts'
import { answerKey, answerNote } from '../grading/question.ts'

/**
 * Stores an answer in the cluster, replacing an earlier one; grading the step then judges it.
 * @throws Error with a sentence for the learner when the text can't be an answer
 */
export async function keepAnswer(client: KubeClient, lab: number, step: string, typed: string): Promise<void> {
  await writeNotes(client, lab, { [answerKey(step)]: JSON.stringify(answerNote(typed)) })
}
