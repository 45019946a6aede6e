import type { Cluster } from '../cluster/driver.ts'

/**
 * A cluster with some members replaced. All others are called on the cluster itself, because no
 * other object has its private members.
 */
export function alteredCluster(cluster: Cluster, members: Partial<Cluster>): Cluster {
  return new Proxy(cluster, {
    get(_target, key) {
      if (key in members) return Reflect.get(members, key)
      const value = Reflect.get(cluster, key)
      return typeof value === 'function' ? value.bind(cluster) : value
    },
  })
}
