// Runs the tests that play a lab on a cluster of their own: test-lab.ts 3 Solved, each step broken,
// its text as a learner types it, and the scores of who answers nothing. Of lab 8 every incident.

import { hasUnthinkingLimits } from '../course/lint/thoughtless.ts'
import { labNumber, readLab } from '../grading/lab-definition.ts'
import { $ } from '../host/command.ts'
import { main } from '../host/main.ts'

await main(async () => {
  const { number } = readLab(labNumber(process.argv[2]))
  const files = [
    `test/labs/lab-${number}.test.ts`,
    `test/labs/lab-${number}-`,
    // The main lab's text is typed beside the terminal's guide, and clicked in the page.
    ...(number === 2 ? ['test/labs/guide.test.ts', 'test/guide/browser/lab-2.test.ts'] : []),
    ...(hasUnthinkingLimits(number) ? ['test/labs/thoughtless.test.ts'] : []),
  ]
  const env = { ...process.env, LAB: `${number}`, INCIDENTS: 'all', TESTS: 'all' }
  const run = $({ stdio: 'inherit', nothrow: true, verbose: false, env })
  const { exitCode } = await run`node_modules/.bin/vitest run ${files}`
  return exitCode === 0 ? 0 : 1
})
