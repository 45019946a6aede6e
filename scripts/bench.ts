// `make bench`: the cost of the model, the parsers, the embedded cluster, a class and a room:
// bench.ts [recordings] [model] [clusters] [class] [room]
import { main } from '../host/main.ts'

/** Each part loads only what it measures. */
const parts = {
  recordings: async () => (await import('../bench/model.ts')).countEqualRecordings(),
  model: async () => (await import('../bench/model.ts')).measureModel(),
  clusters: async () => (await import('../bench/live-cluster.ts')).measureClusters(),
  class: async () => (await import('../bench/class.ts')).measureClass(),
  room: async () => (await import('../bench/room.ts')).measureRoom(),
}

await main(async () => {
  const chosen = process.argv.slice(2)
  const [part, folder] = chosen
  // A process of its own, which the part `model` starts.
  if (part === 'size' && folder) return (await import('../bench/model-size.ts')).measureSize(folder)
  process.env.CLUSTER_OWNER ??= `${process.pid}`
  for (const [name, measure] of Object.entries(parts))
    if (chosen.length === 0 || chosen.includes(name)) await measure()
})
