import type { Capabilities, Cluster } from '../../cluster/driver.ts'

/** A driver whose clusters can do nothing special. */
export const PLAIN: Capabilities = {
  ownedByUser: false,
  hasOutside: false,
  recordsCommands: false,
  runsOldKubeProxies: false,
  ownIptables: false,
  sharedKernel: false,
  ownKernel: false,
  choosesKernel: false,
  reportsSync: false,
}

/** As the embedded cluster on User-Mode Linux. */
export const LIKE_EMBEDDED: Capabilities = {
  ownedByUser: false,
  hasOutside: true,
  recordsCommands: true,
  runsOldKubeProxies: true,
  ownIptables: true,
  sharedKernel: true,
  ownKernel: true,
  choosesKernel: true,
  reportsSync: true,
}

const missing = async (): Promise<never> => {
  throw new Error('a made cluster has none')
}

/**
 * A cluster that exists only in a test: what is not given is missing, and it has no nodes to wait
 * for.
 */
export function madeCluster(own: Partial<Cluster> = {}): Cluster {
  const cluster: Cluster = {
    driver: 'made',
    selector: 'made',
    capabilities: PLAIN,
    name: 'made',
    kubeconfig: '/nonexistent/kubeconfig',
    client: missing,
    up: missing,
    down: missing,
    running: missing,
    unexpectedEnd: () => undefined,
    stoppedNodes: async () => [],
    nodes: missing,
    exec: missing,
    script: (node, text, timeoutMs) => cluster.exec(node, ['sh', '-c', text], { timeoutMs }),
    synced: async () => [],
    shell: missing,
    ...own,
  }
  return cluster
}
