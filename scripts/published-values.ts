// Lists the random values in this repository's recordings, which no other cluster repeats:  published-values.ts
// Published values stay in the list, because old versions of a file remain public.
import { writeFileSync } from 'node:fs'
import { main } from '../host/main.ts'
import {
  gatherPublished,
  PUBLISHED_FILE,
  readPublishedValues,
} from '../instructors/class/published.ts'

await main(async () => {
  const all: Record<string, Record<string, string>> = {}
  for (const published of [readPublishedValues(), await gatherPublished()])
    for (const [source, kinds] of Object.entries(published))
      for (const [kind, digests] of Object.entries(kinds)) {
        const known = all[source]?.[kind]?.split(' ') ?? []
        all[source] = {
          ...all[source],
          [kind]: [...new Set([...known, ...digests.split(' ')])].sort().join(' '),
        }
      }
  const sorted = Object.fromEntries(Object.entries(all).sort(([a], [b]) => (a < b ? -1 : 1)))
  writeFileSync(PUBLISHED_FILE, `${JSON.stringify(sorted, null, 2)}\n`)
  console.log(
    `Written: ${PUBLISHED_FILE}, the values of ${Object.keys(sorted).length} published files and folders.`,
  )
})
