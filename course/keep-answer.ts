import type { KubeClient } from '../cluster/kube-client.ts'
import { writeNotes } from '../grading/lab-notes.ts'
import { answerKey, answerNote } from '../grading/question.ts'

/**
 * Writes an answer down in the cluster, in place of an earlier one; grading the step then says what it is worth.
 * @throws Error with a sentence for the learner when the text can't be an answer
 */
export async function keepAnswer(client: KubeClient, lab: number, step: string, typed: string): Promise<void> {
  await writeNotes(client, lab, { [answerKey(step)]: JSON.stringify(answerNote(typed)) })
}
