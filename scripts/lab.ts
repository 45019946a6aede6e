// Leads through a lab:  lab.ts 2.  With a terminal it waits for the learner, without one it plays the reference solution.

import { changeCluster, leadOnCluster } from '../cluster/cluster-lock.ts'
import type { Cluster } from '../cluster/driver.ts'
import { selectCluster } from '../cluster/select.ts'
import { labNumber } from '../course/lab-number.ts'
import { mustRunHere, needsOf } from '../grading/lab-definition.ts'
import { labFolder } from '../grading/lab-folders.ts'
import { main } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'

/** On a cluster of the user's kubeconfig, asks for consent to everything that the lab will do before anything is started. */
async function agree(number: number, cluster: Cluster): Promise<void> {
  if (cluster.driver !== 'context') return
  const [{ consent }, { labChange }] = await Promise.all([
    import('../cluster/consent.ts'),
    import('../course/lab-bench.ts'),
  ])
  await consent(cluster, labChange(`run a privileged Pod on each node and work through lab ${number}`))
}

await main(async () => {
  const number = labNumber(process.argv[2])
  // Checked before a cluster boots for a lab that does not exist.
  labFolder(number)
  const began = performance.now()
  const progress = createProgress()
  const definition = import('../grading/lab-definition.ts').then(({ readLab }) => readLab(number))
  definition.catch(() => {})
  const needs = async () => needsOf(await definition)
  const cluster = await selectCluster(undefined, undefined, { making: progress, lab: needs })
  await agree(number, cluster)
  // What describes and grades a lab takes a second to load: about as long as a kernel to boot.
  const interactive = process.stdin.isTTY === true && process.stdout.isTTY === true && !process.env.CI
  const guide = interactive ? import('../course/guide/guide.ts') : undefined
  const player = interactive ? undefined : import('../course/play-lab.ts')
  const ready = async () => {
    const [lab] = await Promise.all([definition, cluster.up(progress), guide, player])
    await mustRunHere(cluster, lab)
    return lab
  }
  if (guide)
    return leadOnCluster(cluster, number, async () => {
      const lab = await ready()
      return (await guide).lead(lab, cluster, progress)
    })
  // Who learns at a terminal would have their steps undone; who plays beside another one waits.
  const played = () =>
    leadOnCluster(cluster, number, async () => {
      const lab = await ready()
      return (await player)?.play(lab, cluster, progress)
    })
  const exitCode = await changeCluster(cluster, `plays lab ${number} on`, progress, played)
  console.log(`From \`make lab-${number}\` to here: ${((performance.now() - began) / 1000).toFixed(1)} s.`)
  return exitCode
})
