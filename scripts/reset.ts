// Resets a lab to its starting state:  reset.ts 2

import { runningCluster } from '../cluster/select.ts'
import { LabBench } from '../course/lab-bench.ts'
import { resetLab } from '../course/lab-solution.ts'
import { labNumber, readLab } from '../grading/lab-definition.ts'
import { main } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'

await main(async () => {
  const lab = readLab(labNumber(process.argv[2]))
  const cluster = await runningCluster()
  await resetLab(lab, await LabBench.open(cluster, createProgress(), `reset lab ${lab.number}`))
  console.log(
    `Lab ${lab.number} is at its start. Next: make lab-${lab.number}, or read labs/${lab.folder}/README.md.`,
  )
})
