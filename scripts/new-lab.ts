// Creates the files of a new lab as templates:  NAME=packet-captures new-lab.ts
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { newFolder, scaffold } from '../course/lint/scaffold.ts'
import { projectRoot } from '../host/layout.ts'
import { main } from '../host/main.ts'

await main(async () => {
  const folders = readdirSync(join(projectRoot, 'labs')).filter((name) => /^\d\d-/.test(name))
  const folder = newFolder(process.env.NAME ?? '', folders)
  for (const [path, text] of Object.entries(scaffold(folder))) {
    const file = join(projectRoot, path)
    mkdirSync(dirname(file), { recursive: true })
    // Existing files are never overwritten.
    writeFileSync(file, text, { flag: 'wx' })
    console.log(` ✓ ${path}`)
  }
  console.log(
    'Replace every ✎; `make lint-labs` lists what is still open, `make lint-labs BOOT=1` runs it on a cluster.',
  )
})
