// `make bench`: the cost of the model, the parsers, the embedded cluster and a class:  bench.ts [recordings] [model] [clusters] [class]
import { measureClass } from '../bench/class.ts'
import { measureClusters } from '../bench/live-cluster.ts'
import { countEqualRecordings, measureModel } from '../bench/model.ts'
import { main } from '../host/main.ts'

const parts = {
  recordings: countEqualRecordings,
  model: measureModel,
  clusters: measureClusters,
  class: measureClass,
}

await main(async () => {
  const chosen = process.argv.slice(2)
  for (const [name, measure] of Object.entries(parts))
    if (chosen.length === 0 || chosen.includes(name)) await measure()
})
