// Grades a class. See --help.
import { parseArgs } from 'node:util'
import { main } from '../host/main.ts'
import { classOptions, gradeClass } from '../instructors/grading.ts'

const USAGE = `Usage: node --import tsx scripts/grade-class.ts submissions/*.labgrade [options]
       node --import tsx scripts/grade-class.ts --kubeconfigs DIR --lab 2 [--limit N] [options]

Grades the files of a class offline, or the running clusters that the kubeconfigs of a folder reach (each file named
after its learner). For that each node runs a privileged Pod: YES=1 allows it.

  --html FILE --csv FILE --json FILE --junit FILE --tap FILE      one result for the class
  --gradescope DIR --check50 DIR --classroom50 DIR                one result file per learner
  --key FILE          files must be signed with this class key (or CLASS_KEY_FILE)
  --class WORD        captures must show this word of the class (or CLASS); with a key, each learner's own word is also accepted
  --tasks FILE        tasks.json of the class's room: flag captures that lack a task of their learner
  --variants          each learner has a variant (LEARNER=): flag learners without one, even if few have one
  --jobs N            files judged in parallel; default 2
  --limit N           clusters graded in parallel; default 8
  --deadline SECONDS  for each file (20) or cluster (120)
  --report-only       exit 0 even if a file was refused, after the results are written
  --quiet             no line for each learner

Exit status: 0 all were graded, whatever their verdicts; 2 when a file was refused or a cluster could not be graded.
`

await main(async () => {
  const { values, positionals } = parseArgs({ options: classOptions, allowPositionals: true })
  return gradeClass(positionals, values)
}, USAGE)
