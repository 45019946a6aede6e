import type { Cluster } from '../cluster/driver.ts'

/** A cluster, but for some members. Everything else is asked of the cluster itself, whose private members no other object has. */
export function alteredCluster(cluster: Cluster, members: Partial<Cluster>): Cluster {
  return new Proxy(cluster, {
    get(_target, key) {
      if (key in members) return Reflect.get(members, key)
      const value = Reflect.get(cluster, key)
      return typeof value === 'function' ? value.bind(cluster) : value
    },
  })
}
