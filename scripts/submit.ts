// Writes a learner's submission: make submit LEARNER=alice LAB=2 → submissions/alice-lab2.labgrade
import type { Cluster } from '../cluster/driver.ts'
import { kubeClient } from '../cluster/kube-client.ts'
import { selectCluster } from '../cluster/select.ts'
import { learnerName } from '../grading/class-key.ts'
import { labNumber, readLab } from '../grading/lab-definition.ts'
import { begunLabs } from '../grading/lab-notes.ts'
import { learnerReport, scoreLine } from '../grading/learner-report.ts'
import { Moments } from '../grading/moments.ts'
import { clusterName } from '../host/layout.ts'
import { main, Refusal } from '../host/main.ts'
import { handIn } from '../instructors/submission/hand-in.ts'

await main(async () => {
  const { learner, name } = whoAndWhere()
  const cluster = await selectCluster(undefined, name)
  const { LAB } = process.env
  const lab = readLab(LAB ? labNumber(LAB) : onlyLab(await workedOn(cluster)))
  const { file, sizeBytes, isSigned, report, notes } = await handIn(cluster, lab, learner)
  process.stdout.write(learnerReport(report))
  console.log(
    `Written: ${file} (${Math.ceil(sizeBytes / 1024)} KiB${isSigned ? ', signed' : ''}): ${scoreLine(report)}.`,
  )
  for (const line of notes) console.log(line)
  console.log(`What an instructor will see: node --import tsx scripts/check.ts --capture ${file}`)
})

/**
 * LEARNER is the person and NAME the cluster, as in all commands. Without LEARNER, NAME is the
 * person, as in earlier versions, and CLUSTER_NAME the cluster.
 */
function whoAndWhere(): { learner: string; name: string } {
  const { LEARNER, NAME, CLUSTER_NAME } = process.env
  if (LEARNER) return { learner: learnerName(LEARNER), name: clusterName(CLUSTER_NAME || NAME) }
  if (!NAME)
    throw new Refusal('The learner is missing: for example `make submit LEARNER=alice LAB=2`.')
  const learner = learnerName(NAME)
  console.log(
    `NAME=${learner} is used as the learner; write LEARNER=${learner}, as NAME is the cluster everywhere else.`,
  )
  return { learner, name: clusterName(CLUSTER_NAME || 'k8s-guide') }
}

/**
 * The labs with captures that were kept, and those begun on a running cluster, whose steps may not
 * have passed yet.
 */
async function workedOn(cluster: Cluster): Promise<number[]> {
  const kept = new Moments(cluster.driver, cluster.name).labs()
  const begun = (await cluster.running()) ? await begunLabs(await kubeClient(cluster)) : []
  return [...new Set([...kept, ...begun])].sort((one, other) => one - other)
}

/** The lab that was worked on, if it is a single one. */
function onlyLab(labs: readonly number[]): number {
  const [only] = labs
  if (only !== undefined && labs.length === 1) return only
  const known =
    labs.length > 0 ? `labs ${labs.join(', ')} were worked on` : 'none was worked on yet'
  throw new Refusal(`Which lab? ${known}: choose as in \`make submit LEARNER=alice LAB=2\`.`)
}
