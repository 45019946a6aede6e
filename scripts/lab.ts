// Guides through a lab:  lab.ts 2.  With a terminal it waits for the learner, without one it plays the reference solution.

import { changeCluster, guideOnCluster } from '../cluster/cluster-lock.ts'
import type { Cluster } from '../cluster/driver.ts'
import { selectCluster } from '../cluster/select.ts'
import { labFolder, labNumber, mustRunHere, needsOf } from '../grading/lab-definition.ts'
import { main } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'

/** On a cluster of the user's kubeconfig, asks for consent to all changes of the lab before it starts. */
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
  // Checked before a cluster is started for a lab that does not exist.
  labFolder(number)
  const began = performance.now()
  const progress = createProgress()
  const definition = import('../grading/lab-definition.ts').then(({ readLab }) => readLab(number))
  definition.catch(() => {})
  const needs = async () => needsOf(await definition)
  const cluster = await selectCluster(undefined, undefined, { creating: progress, lab: needs })
  await agree(number, cluster)
  // Loading the lab's code takes about a second, as long as booting a kernel, so both run in parallel.
  const interactive = process.stdin.isTTY === true && process.stdout.isTTY === true && !process.env.CI
  const guide = interactive ? import('../course/guide/guide.ts') : undefined
  const player = interactive ? undefined : import('../course/play-lab.ts')
  const ready = async () => {
    const [lab] = await Promise.all([definition, cluster.up(progress), guide, player])
    await mustRunHere(cluster, lab)
    return lab
  }
  const own = { target: `lab-${number}`, doing: `runs the guide of lab ${number}` }
  if (guide)
    return guideOnCluster(cluster, own, async () => {
      const lab = await ready()
      progress.note(`The same lab in the browser, with the dataplane beside the text: make guide LAB=${number}`)
      return (await guide).guideThroughLab(lab, cluster, progress)
    })
  // The guide refuses to start beside another one, which would undo its steps; playing the solution waits.
  const played = () =>
    guideOnCluster(cluster, own, async () => {
      const lab = await ready()
      return (await player)?.play(lab, cluster, progress)
    })
  const exitCode = await changeCluster(cluster, `plays lab ${number} on`, progress, played)
  console.log(`From \`make lab-${number}\` to here: ${((performance.now() - began) / 1000).toFixed(1)} s.`)
  return exitCode
})
