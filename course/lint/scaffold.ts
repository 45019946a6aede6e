import { UNWRITTEN } from './course-files.ts'

/** Allowed names of a new lab: `tcpdump`, or `07-tcpdump` with a chosen number. */
const NAME = /^(?:(\d\d)-)?([a-z][a-z0-9-]{1,29}[a-z0-9])$/

/**
 * The folder of a new lab, numbered after the last one unless the name contains a number.
 * @throws Error with a sentence for people when the name or the number can't be used
 */
export function newFolder(name: string, folders: readonly string[]): string {
  const [, wish, stem] = NAME.exec(name) ?? []
  if (stem === undefined)
    throw new Error(`"${name}" is not a valid name for a lab: use lower case, as in make new-lab NAME=packet-captures.`)
  const taken = folders.map((folder) => Number(folder.slice(0, 2)))
  const number = wish === undefined ? Math.max(0, ...taken) + 1 : Number(wish)
  if (number < 1 || number > 99) throw new Error(`There is no lab number "${number}": labs are 01 to 99.`)
  const holder = folders.find((folder) => Number(folder.slice(0, 2)) === number)
  if (holder) throw new Error(`labs/${holder} already has the number ${number}: choose another one, or omit it.`)
  return `${String(number).padStart(2, '0')}-${stem}`
}

/**
 * The files of a new lab with one step, by path. They can be loaded; the linter reports the marks until they
 * are replaced.
 */
export function scaffold(folder: string): Record<string, string> {
  const number = Number(folder.slice(0, 2))
  return {
    [`labs/${folder}/lab.yaml`]: labYaml(number, folder),
    [`labs/${folder}/README.md`]: readme(number),
    [`labs/${folder}/solution.ts`]: solution(number),
    [`checks/${folder}.check.ts`]: spec(number, folder),
    [`test/labs/lab-${number}-text.test.ts`]: textTest(number, folder),
  }
}

const labYaml = (
  number: number,
  folder: string,
) => `# Steps of lab ${number}. labs/claims.yaml lists the claims that each step proves; checks/${folder}.check.ts checks them.
id: ${number}
title: ${UNWRITTEN} What the lab is about
minutes: 30
steps:
  - id: web
    title: ${UNWRITTEN} A sentence that is true once the step is solved
    points: 10
    why: ${UNWRITTEN} Why it matters, in a sentence or two.
    hints:
      - ${UNWRITTEN} A general hint without a command.
      - ${UNWRITTEN} The command, as in \`make web\`.
`

const readme = (number: number) => `# Lab ${number}: ${UNWRITTEN} its title

${UNWRITTEN} What you will do, and why. Plan about 30 minutes.

\`make lab-${number}\` guides you through these steps and checks each one while you work in a second terminal.
\`make hint LAB=${number}\` shows a hint, and \`make reset-${number}\` starts over.

## 1. ${UNWRITTEN} The first step

<!-- step: web -->

${UNWRITTEN} The reason first, then the commands.

\`\`\`bash timeout=120
make web
\`\`\`

**What you saw.** ${UNWRITTEN} What the commands printed, and what follows from it.
`

const solution = (
  number: number,
) => `// The reference solution of lab ${number}, played by \`make solve-${number}\` and, without a terminal, by \`make lab-${number}\`.

import type { LabSolution } from '../../course/lab-solution.ts'
import { web } from '../../course/typed-commands.ts'

export const solution: LabSolution = {
  steps: { web },

  async leave(_bench) {
    // ${UNWRITTEN} Delete what the lab creates, except web: \`make reset-${number}\` deletes that itself.
  },
}
`

const spec = (number: number, folder: string) => `// Lab ${number}: the checks of the steps in labs/${folder}/lab.yaml.

import { defineLab } from '../grading/define-lab.ts'
import { webService } from '../grading/expect-object.ts'
import { expectThat } from '../grading/failure.ts'

export default defineLab(${number}, ({ step }) => {
  // ${UNWRITTEN} Compare the snapshot with the prediction, in both directions, or probe with a real packet.
  step('web', ({ snapshot }) => {
    const { name, backends } = webService(snapshot)
    const inspect = \`kubectl get pods -l app=\${name}\`
    expectThat(backends.length > 0, { inspect, expected: 'a ready Pod behind the Service', actual: 'none' })
  })
})
`

const textTest = (
  number: number,
  folder: string,
) => `// Runs every command of labs/${folder}/README.md, from the first line to the last.

import { typeText } from './typed-text.ts'

typeText(${number})
`
