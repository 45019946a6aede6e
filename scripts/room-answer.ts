// Answers the latest poll of the room, or a task that it has given:  make room-answer A='…'

import { consent } from '../cluster/consent.ts'
import { selectCluster } from '../cluster/select.ts'
import { begunLabs } from '../grading/lab-notes.ts'
import { openCluster } from '../grading/live-cluster.ts'
import { ExitCode, main, Refusal } from '../host/main.ts'
import { LearnerSeat } from '../room/learner/seat.ts'
import { labWithTask } from '../room/learner/task-notes.ts'
import { taskText } from '../room/tasks.ts'

const GREETING_MS = 5000

await main(async () => {
  const { A: text = '' } = process.env
  const seat = LearnerSeat.open()
  if (!(await seat.greeted(GREETING_MS))) {
    await seat.end()
    throw new Refusal("The room can't be reached: `make room-answer` works once you are in a room.")
  }
  const [task] = seat.openTasks
  const poll = seat.view.notices.findLast((notice) => notice.kind === 'poll')
  try {
    if (text === '')
      throw new Refusal(
        `${asked(task && taskText(task), poll?.ask)} Answer with: make room-answer A='…'`,
      )
    if (task) return await answerTask(seat, task.id, text)
    if (!poll) throw new Refusal('The room asks nothing now.')
    if (poll.choices.length > 0 && !poll.choices.includes(text))
      throw new Refusal(
        `"${text}" is not an answer to "${poll.ask}": choose one of ${poll.choices.join(', ')}.`,
      )
    seat.vote(poll.id, text)
    console.log(`Sent: ${text}`)
    return ExitCode.passed
  } finally {
    await seat.end()
  }
})

const asked = (task: string | undefined, poll: string | undefined): string =>
  task ?? poll ?? 'The room asks nothing now.'

async function answerTask(seat: LearnerSeat, id: string, text: string): Promise<number> {
  const cluster = await selectCluster()
  const source = await openCluster(cluster)
  const { client } = source.live
  const lab = await labWithTask(client, await begunLabs(client), id)
  if (lab === undefined)
    throw new Refusal(
      'The task is not in the notes of a lab yet: open the guide, as in `make lab-2`.',
    )
  await consent(cluster, `write the answer into ConfigMap "lab-${lab}" in namespace "default"`)
  const place = { cluster, client, lab, snapshot: () => source.snapshot() }
  const { isRight, found } = await seat.answerTask(id, text, place)
  console.log(isRight ? `✓ ${text}` : `✗ ${text}: the node held ${found}.`)
  return isRight ? ExitCode.passed : ExitCode.notYet
}
