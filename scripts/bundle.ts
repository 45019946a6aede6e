// Writes the offline archive to dist/.
import { statSync } from 'node:fs'
import { arch } from 'node:os'
import { basename } from 'node:path'
import { NAME, writeOfflineArchive } from '../course/offline-archive.ts'
import { main } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'

await main(async () => {
  const began = performance.now()
  const archive = await writeOfflineArchive(createProgress())
  const megabytes = Math.round(statSync(archive).size / 1_000_000)
  console.log(
    `${archive} has ${megabytes} MB, after ${((performance.now() - began) / 1000).toFixed(0)} s.`,
  )
  console.log(`On any Linux on ${arch()}: tar -xzf ${basename(archive)} && cd ${NAME} && ./lab 2`)
})
