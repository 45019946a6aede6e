import type * as k8s from '@kubernetes/client-node'
import type { Cluster } from './driver.ts'

/** The typed APIs that scripts and checks use. */
export interface KubeClient {
  config: k8s.KubeConfig
  core: k8s.CoreV1Api
  apps: k8s.AppsV1Api
  discovery: k8s.DiscoveryV1Api
}

/** Clients for a cluster from its own kubeconfig; the user's is never read. The import costs 0.4 s, hence not at the top. */
export async function kubeClient(cluster: Pick<Cluster, 'kubeconfig'>): Promise<KubeClient> {
  const { AppsV1Api, CoreV1Api, DiscoveryV1Api, KubeConfig } = await import('@kubernetes/client-node')
  const config = new KubeConfig()
  config.loadFromFile(cluster.kubeconfig)
  return {
    config,
    core: config.makeApiClient(CoreV1Api),
    apps: config.makeApiClient(AppsV1Api),
    discovery: config.makeApiClient(DiscoveryV1Api),
  }
}
