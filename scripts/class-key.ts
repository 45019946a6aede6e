// The secret of a class. See --help.
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { learnerKeyLine, learnerName, readClassKey } from '../grading/class-key.ts'
import { main, Refusal } from '../host/main.ts'

const USAGE = `Usage: node --import tsx scripts/class-key.ts --new class.key
       node --import tsx scripts/class-key.ts --key class.key --learner alice

The first creates the secret of a class, for the instructor only. The second prints one learner's key, which signs for
that learner only: hand it out as a file, for example for CLASS_KEY_FILE=alice.key make submit LEARNER=alice LAB=2.
`

await main(async () => {
  const { values } = parseArgs({
    options: { new: { type: 'string' }, key: { type: 'string' }, learner: { type: 'string' } },
  })
  if (values.new !== undefined) {
    try {
      writeFileSync(values.new, `${randomBytes(32).toString('hex')}\n`, { mode: 0o600, flag: 'wx' })
    } catch {
      throw new Refusal(
        `"${values.new}" can't be created: it exists already, or its folder does not.`,
      )
    }
    return console.log(
      `Written: ${values.new}. Keep it secret; --key ${values.new} --learner NAME prints a learner's key.`,
    )
  }
  if (values.key === undefined || values.learner === undefined)
    throw new Refusal(
      'Nothing to do: `--new FILE` creates a key, `--key FILE --learner NAME` prints a learner’s key.',
    )
  console.log(learnerKeyLine(readClassKey(values.key), learnerName(values.learner)))
}, USAGE)
