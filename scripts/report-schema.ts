// Writes checks/schema/*.json from the zod schemas in checks/; a test says when it has to run again.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { JSON_SCHEMAS } from '../checks/json-schemas.ts'
import { projectRoot } from '../cluster/layout.ts'
import { main } from './main.ts'

await main(async () => {
  for (const [name, schema] of Object.entries(JSON_SCHEMAS)) {
    const file = join(projectRoot, 'checks/schema', name)
    writeFileSync(file, `${JSON.stringify(schema(), null, 2)}\n`)
    console.log(`Written: ${file}`)
  }
})
