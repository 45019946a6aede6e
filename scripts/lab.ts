// Leads through a lab:  lab.ts 2.  With a terminal it waits for the learner, without one it plays the reference solution.

import { selectCluster } from '../cluster/select.ts'
import { labNumber } from '../course/lab-number.ts'
import { labFolder } from '../grading/lab-folders.ts'
import { main } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'

await main(async () => {
  const number = labNumber(process.argv[2])
  // Before anything boots for a lab that there is not.
  labFolder(number)
  const began = performance.now()
  const cluster = await selectCluster()
  const progress = createProgress()
  // What describes and grades a lab takes a second to load: about as long as a kernel to boot.
  const [, { readLab }, { lead, play }] = await Promise.all([
    cluster.up(progress),
    import('../grading/lab-definition.ts'),
    import('../course/work-through.ts'),
  ])
  const lab = readLab(number)
  const interactive = process.stdin.isTTY === true && process.stdout.isTTY === true && !process.env.CI
  if (interactive) return lead(lab, cluster, progress)
  const exitCode = await play(lab, cluster, progress)
  console.log(`From \`make lab-${lab.number}\` to here: ${((performance.now() - began) / 1000).toFixed(1)} s.`)
  return exitCode
})
