// Lists the random values in this repository's recordings, which no other cluster repeats:  published-values.ts
import { main } from '../host/main.ts'
import { PUBLISHED_FILE, publishValues } from '../instructors/class/published.ts'

await main(async () => {
  const count = await publishValues()
  console.log(`Written: ${PUBLISHED_FILE}, the values of ${count} published files and folders.`)
})
