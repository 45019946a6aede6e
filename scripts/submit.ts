// Writes a learner's submission:  make submit LEARNER=alice LAB=2  →  submissions/alice-lab2.labgrade
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { type Cluster, downText } from '../cluster/driver.ts'
import { selectCluster } from '../cluster/select.ts'
import { takeCapture } from '../cluster/snapshot.ts'
import { classWord, expectedWords, wordIn, wordState } from '../grading/class-word.ts'
import { gradeWith, loadSpec } from '../grading/grader.ts'
import { type LabDefinition, labNumber, readLab } from '../grading/lab-definition.ts'
import { learnerReport, scoreLine } from '../grading/learner-report.ts'
import { type Moment, Moments } from '../grading/moments.ts'
import { type ClassKey, learnerName, readClassKey } from '../grading/signature.ts'
import { openCluster } from '../grading/source.ts'
import { clusterName } from '../host/layout.ts'
import { main, UserError } from '../host/main.ts'
import { type HandIn, packSubmission } from '../instructors/submission/pack.ts'
import { readSubmission } from '../instructors/submission/read-submission.ts'
import { reportSubmission } from '../instructors/submission/rejudge.ts'

await main(async () => {
  const { learner, name } = whoAndWhere()
  const key = process.env.CLASS_KEY_FILE ? readClassKey(process.env.CLASS_KEY_FILE) : undefined
  const cluster = await selectCluster(undefined, name)
  const moments = new Moments(cluster.driver, cluster.name)
  const lab = readLab(chosenLab(moments))
  const now = (await cluster.running()) ? await gradeNow(lab, cluster) : undefined
  const kept = moments.all(lab.number)
  if (!now && kept.length === 0)
    throw new UserError(
      `${downText(cluster)} and no capture of lab ${lab.number} was kept: work on it with \`make lab-${lab.number}\`.`,
    )
  if (!now) console.log(`${downText(cluster)}. The captures that were kept during the lab are submitted.`)
  const missing = wordWarning(lab, [...kept, ...(now ? [now] : [])], learner, key)
  const bytes = packSubmission({ lab, learner, cluster, moments: kept, ...(now ? { now } : {}), key })
  const file = join(process.env.DIR || 'submissions', `${learner}-lab${lab.number}.labgrade`)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(`${file}.new`, bytes)
  renameSync(`${file}.new`, file)
  const signed = key ? ', signed' : ''
  const submission = await readSubmission(file, { key })
  const report = await reportSubmission(await loadSpec(lab), submission, basename(file))
  process.stdout.write(learnerReport(report))
  console.log(`Written: ${file} (${Math.ceil(bytes.length / 1024)} KiB${signed}): ${scoreLine(report)}.`)
  for (const line of missing) console.log(line)
  console.log(`What an instructor will see: node --import tsx scripts/check.ts --capture ${file}`)
})

/**
 * LEARNER is the person and NAME the cluster, as in all commands. Without LEARNER, NAME is the person, as in earlier
 * versions, and CLUSTER_NAME the cluster.
 */
function whoAndWhere(): { learner: string; name: string } {
  const { LEARNER, NAME, CLUSTER_NAME } = process.env
  if (LEARNER) return { learner: learnerName(LEARNER), name: clusterName(CLUSTER_NAME || NAME) }
  if (!NAME) throw new UserError('The learner is missing: for example `make submit LEARNER=alice LAB=2`.')
  const learner = learnerName(NAME)
  console.log(
    `NAME=${learner} is used as the learner; write LEARNER=${learner}, as NAME is the cluster everywhere else.`,
  )
  return { learner, name: clusterName(CLUSTER_NAME || 'k8s-guide') }
}

function chosenLab(moments: Moments): number {
  if (process.env.LAB) return labNumber(process.env.LAB)
  const labs = moments.labs()
  const [only] = labs
  if (only !== undefined && labs.length === 1) return only
  const known = labs.length > 0 ? `labs ${labs.join(', ')} were worked on` : 'none was worked on yet'
  throw new UserError(`Which lab? ${known}: choose as in \`make submit LEARNER=alice LAB=2\`.`)
}

/** The warning if captures do not show the word of the class, which the cluster must hold before steps pass. */
function wordWarning(
  { number, steps }: LabDefinition,
  parts: readonly (Pick<Moment, 'capture'> & { step?: string })[],
  learner: string,
  key: ClassKey | undefined,
): string[] {
  const { CLASS } = process.env
  const words = expectedWords(CLASS ? classWord(CLASS) : undefined, key, learner)
  const own = parts.flatMap(({ capture }) => wordIn(capture.objects.items) ?? []).at(-1)
  const expected = words.length > 0 ? words : own === undefined ? [] : [own]
  if (expected.length === 0) return []
  const without = parts.filter(({ capture }) => wordState(capture, expected) !== 'shown').map(({ step }) => step)
  if (without.length === 0) return []
  const ids = steps.map(({ id }) => id).filter((id) => without.includes(id))
  const what = ids.length > 0 ? `what was recorded of ${ids.join(', ')}` : 'the cluster as it is now'
  const set = CLASS ? `CLASS=${CLASS}` : key ? 'CLASS_KEY_FILE=…' : 'CLASS=…'
  return [
    `The word of your class is missing from ${what}, and the class report will say so.`,
    `To record it again, work on a new cluster: \`make down\`, then \`${set} make lab-${number}\`. Or tell your instructor why.`,
  ]
}

/** Grades once more, which keeps a capture for every step that passes now, and captures the whole cluster. */
async function gradeNow(lab: LabDefinition, cluster: Cluster): Promise<HandIn['now']> {
  const source = await openCluster(cluster)
  const { driver, name } = cluster
  const request = { lab: lab.number, source: { kind: 'cluster', driver, name } as const }
  const report = await gradeWith(await loadSpec(lab), request, () => source)
  return { report, capture: await takeCapture(cluster, source.live.client, 'thorough') }
}
