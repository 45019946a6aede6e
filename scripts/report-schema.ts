// Writes checks/schema/report.v1.json from checks/report-schema.ts; a test says when it has to run again.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { reportJsonSchema } from '../checks/report-schema.ts'
import { projectRoot } from '../cluster/layout.ts'
import { main } from './main.ts'

await main(async () => {
  const file = join(projectRoot, 'checks/schema/report.v1.json')
  writeFileSync(file, `${JSON.stringify(reportJsonSchema(), null, 2)}\n`)
  console.log(`Written: ${file}`)
})
