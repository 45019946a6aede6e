// Writes instructors/schema/*.json from the zod schemas; a test fails when it must run again.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { projectRoot } from '../host/layout.ts'
import { main } from '../host/main.ts'
import { jsonSchemas } from '../instructors/class/formats/formats.ts'

await main(async () => {
  for (const [name, schema] of Object.entries(jsonSchemas())) {
    const file = join(projectRoot, 'instructors/schema', name)
    writeFileSync(file, `${JSON.stringify(schema, null, 2)}\n`)
    console.log(`Written: ${file}`)
  }
})
