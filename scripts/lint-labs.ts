// Lints the course:  lint-labs.ts [--run] [2 …]   With --run each lab is also run on an embedded cluster.
import { parseArgs } from 'node:util'
import { chalk } from 'zx/core'
import { selectCluster } from '../cluster/select.ts'
import { LabBench } from '../course/lab-bench.ts'
import { type Complaint, readCourse } from '../course/lint/course-files.ts'
import { lintCourse } from '../course/lint/lint-course.ts'
import { runLab } from '../course/lint/run-lab.ts'
import { loadSpec } from '../grading/grader.ts'
import { labNumber, listLabs, readLab } from '../grading/lab-definition.ts'
import { ExitCode, main } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'

await main(async () => {
  const { values, positionals } = parseArgs({ options: { run: { type: 'boolean' } }, allowPositionals: true })
  const numbers = positionals.length > 0 ? positionals.map(labNumber) : listLabs().map(({ number }) => number)
  const course = await readCourse()
  const written = lintCourse(course)
  for (const complaint of written) print(complaint)
  const tried = values.run && written.length === 0 ? await tryLabs(numbers) : []
  const count = written.length + tried.length
  const what = `${course.labs.length} labs${values.run ? `, ${numbers.length} of them run on a cluster` : ''}`
  if (count === 0) console.log(` ${chalk.green('✓')} ${what}: no complaints.`)
  else console.log(` ${chalk.red('✗')} ${what}: ${count} ${count === 1 ? 'complaint' : 'complaints'}.`)
  if (values.run && written.length > 0) console.log('No lab was run on a cluster: fix the complaints above first.')
  return count === 0 ? ExitCode.passed : ExitCode.notYet
})

/** Boots a separate cluster, and stops it unless it already ran. */
async function tryLabs(numbers: readonly number[]): Promise<Complaint[]> {
  const cluster = await selectCluster('embedded', process.env.NAME || 'lint-labs')
  const ranBefore = await cluster.running()
  const progress = createProgress()
  await cluster.up(progress)
  try {
    const complaints: Complaint[] = []
    for (const number of numbers) {
      const lab = readLab(number)
      console.log(chalk.bold(`\nLab ${number}: ${lab.title}`))
      complaints.push(...(await runLab(await loadSpec(lab), await LabBench.open(cluster, progress))))
    }
    console.log()
    for (const complaint of complaints) print(complaint)
    return complaints
  } finally {
    if (!ranBefore) await cluster.down(progress)
  }
}

function print({ file, text }: Complaint): void {
  console.log(` ${chalk.red('✗')} ${chalk.bold(file)}: ${text}`)
}
