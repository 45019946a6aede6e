// Lints the course: lint-labs.ts [--run] [2 …] With --run each lab is also run on an embedded
// cluster; FIX=1 corrects the minutes.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { chalk } from 'zx/core'
import { readCourse } from '../course/lint/course-files.ts'
import { effortTable } from '../course/lint/effort.ts'
import { withModelMinutes } from '../course/lint/fix-minutes.ts'
import { lintCourse } from '../course/lint/lint-course.ts'
import { runLabs } from '../course/lint/run-lab.ts'
import { labNumber, listLabs } from '../grading/lab-definition.ts'
import { projectRoot } from '../host/layout.ts'
import { ExitCode, main } from '../host/main.ts'
import { isOn } from '../host/switches.ts'

await main(async () => {
  const { values, positionals } = parseArgs({
    options: { run: { type: 'boolean' } },
    allowPositionals: true,
  })
  const isRun = values.run || isOn('BOOT')
  const numbers =
    positionals.length > 0 ? positionals.map(labNumber) : listLabs().map(({ number }) => number)
  process.env.CLUSTER_OWNER ??= `${process.pid}`
  if (isOn('FIX')) await fixMinutes()
  const course = await readCourse()
  const written = lintCourse(course)
  console.log(effortTable(course).join('\n'))
  const complaints = isRun && written.length === 0 ? await runLabs(numbers) : written
  for (const { file, text } of complaints)
    console.log(` ${chalk.red('✗')} ${chalk.bold(file)}: ${text}`)
  const what = `${course.labs.length} labs${isRun ? `, ${numbers.length} of them run on a cluster` : ''}`
  const count = complaints.length
  if (count === 0) console.log(` ${chalk.green('✓')} ${what}: no complaints.`)
  else
    console.log(` ${chalk.red('✗')} ${what}: ${count} ${count === 1 ? 'complaint' : 'complaints'}.`)
  if (isRun && written.length > 0)
    console.log('No lab was run on a cluster: fix the complaints above first.')
  return count === 0 ? ExitCode.passed : ExitCode.notYet
})

async function fixMinutes(): Promise<void> {
  for (const [file, text] of Object.entries(withModelMinutes(await readCourse()))) {
    writeFileSync(join(projectRoot, file), text)
    console.log(` ${chalk.green('✓')} ${file}: states the lab's minutes, within five of the model.`)
  }
}
