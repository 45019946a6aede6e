import type { Api } from '../apiserver/api.ts'
import type { Service } from '../controllers/resources.ts'
import type { Pod } from './objects.ts'

const clusterDomain = 'cluster.local'
const nodeNameserver = '172.18.0.1'

/** A Pod's /etc/hosts as the kubelet writes it. */
export function podHosts(pod: Pod, podIP: string): string {
  const { hostname = pod.metadata.name, subdomain, hostAliases = [] } = pod.spec
  const domain = subdomain ? `${hostname}.${subdomain}.${pod.metadata.namespace}.svc.${clusterDomain}\t` : ''
  return [
    '# Kubernetes-managed hosts file.',
    '127.0.0.1\tlocalhost',
    '::1\tlocalhost ip6-localhost ip6-loopback',
    `${podIP}\t${domain}${hostname}`,
    ...hostAliases.map(({ ip, hostnames = [] }) => [ip, ...hostnames].join('\t')),
    '',
  ].join('\n')
}

/** A Pod's /etc/resolv.conf by its DNS policy: cluster DNS, or the node's. */
export function podResolvConf(api: Api, pod: Pod): string {
  const { dnsPolicy = 'ClusterFirst', hostNetwork, dnsConfig } = pod.spec
  const cluster = dnsPolicy === 'ClusterFirstWithHostNet' || (dnsPolicy === 'ClusterFirst' && !hostNetwork)
  const dns = api.get<Service>('services', 'kube-system', 'kube-dns')?.spec.clusterIP ?? '10.96.0.10'
  const base =
    dnsPolicy === 'None'
      ? { servers: [], searches: [], options: [] }
      : cluster
        ? {
            servers: [dns],
            searches: [`${pod.metadata.namespace}.svc.${clusterDomain}`, `svc.${clusterDomain}`, clusterDomain],
            options: ['ndots:5'],
          }
        : { servers: [nodeNameserver], searches: [], options: ['timeout:1', 'attempts:1'] }
  const searches = [...base.searches, ...(dnsConfig?.searches ?? [])]
  const more = (dnsConfig?.options ?? []).map(({ name, value }) => (value === undefined ? name : `${name}:${value}`))
  const options = [...base.options, ...more]
  return [
    ...(searches.length ? [`search ${searches.join(' ')}`] : []),
    ...[...base.servers, ...(dnsConfig?.nameservers ?? [])].map((server) => `nameserver ${server}`),
    ...(options.length ? [`options ${options.join(' ')}`] : []),
    '',
  ].join('\n')
}
