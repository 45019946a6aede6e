// `make bench`: the cost of the model, the parsers, the embedded cluster, a class and a room:  bench.ts [recordings] [model] [clusters] [class] [room]
import { measureClass } from '../bench/class.ts'
import { measureClusters } from '../bench/live-cluster.ts'
import { countEqualRecordings, measureModel } from '../bench/model.ts'
import { measureRoom } from '../bench/room.ts'
import { main } from '../host/main.ts'

const parts = {
  recordings: countEqualRecordings,
  model: measureModel,
  clusters: measureClusters,
  class: measureClass,
  room: measureRoom,
}

await main(async () => {
  process.env.CLUSTER_OWNER ??= `${process.pid}`
  const chosen = process.argv.slice(2)
  for (const [name, measure] of Object.entries(parts))
    if (chosen.length === 0 || chosen.includes(name)) await measure()
})
