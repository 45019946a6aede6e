// Guides through a lab: lab.ts 2. With a terminal it waits for the learner, without one it plays
// the reference solution.
import { changeCluster, guideOnCluster } from '../cluster/cluster-lock.ts'
import { consent } from '../cluster/consent.ts'
import { selectCluster } from '../cluster/select.ts'
import { guideThroughLab } from '../course/guide/guide.ts'
import { shownHints } from '../course/hints.ts'
import { labChange } from '../course/lab-bench.ts'
import { play } from '../course/play-lab.ts'
import { labNumber, mustRunHere, readLab } from '../grading/lab-definition.ts'
import { main } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'
import { joinedLine, LearnerSeat } from '../room/learner/seat.ts'

await main(async () => {
  const began = performance.now()
  const lab = readLab(labNumber(process.argv[2]))
  const { number } = lab
  const progress = createProgress()
  const seat = LearnerSeat.open()
  if (seat.view.state !== 'out') progress.note(joinedLine(seat.view))
  const cluster = await selectCluster(undefined, undefined, { creating: progress, lab })
  await consent(
    cluster,
    labChange(`run a privileged Pod on each node and work through lab ${number}`),
  )
  const own = { target: `lab-${number}`, doing: `runs the guide of lab ${number}` }
  const isGuided = process.stdin.isTTY && process.stdout.isTTY && !process.env.CI
  const work = () =>
    guideOnCluster(cluster, own, async () => {
      await cluster.up(progress)
      await mustRunHere(cluster, lab)
      if (!isGuided)
        return play(lab, cluster, progress, (report) =>
          seat.reported(lab, report, shownHints(number, cluster.name)),
        )
      progress.note(
        `The same lab in the browser, with the dataplane beside the text: make guide LAB=${number}`,
      )
      return guideThroughLab(lab, cluster, progress, seat)
    })
  // The guide refuses to start beside another one, which would undo its steps; playing the solution
  // waits.
  if (isGuided) return work().finally(() => seat.end())
  const exitCode = await changeCluster(cluster, `plays lab ${number} on`, progress, work).finally(
    () => seat.end(),
  )
  console.log(
    `From \`make lab-${number}\` to here: ${((performance.now() - began) / 1000).toFixed(1)} s.`,
  )
  return exitCode
})
