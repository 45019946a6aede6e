// Plays labs from the offline archive on a machine that has nothing:  [LAB='2 7'] test-bundle.ts
import { playInEmptyRoot } from '../course/offline-archive.ts'
import { main, UserError } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'

await main(async () => {
  // One for each kernel: lab 7 is the one with steps that only this machine's own can do.
  const labs = (process.env.LAB || '2 7').trim().split(/[\s,]+/)
  const wrong = labs.find((lab) => !/^\d+$/.test(lab))
  if (wrong !== undefined) throw new UserError(`"${wrong}" is not the number of a lab: make test-bundle LAB='2 7'.`)
  return playInEmptyRoot(labs, createProgress())
})
