import { entryName } from '../entry-id.ts'
import { targetOf } from '../rule.ts'
import type { Entry } from './holdings.ts'

/**
 * What chains, sets and maps do that kube-proxy makes for no single Service, to follow "which" or
 * "it".
 */
const PURPOSES: Record<string, string> = {
  'KUBE-SERVICES': 'finds packets to Services by their destination',
  'KUBE-NODEPORTS': 'finds packets to node ports and health checks',
  'KUBE-NODE-PORT': 'finds packets to node ports and health checks',
  'KUBE-EXTERNAL-SERVICES': 'stops packets from outside to Services without endpoints',
  'KUBE-FORWARD': 'accepts packets that are forwarded to endpoints, and their replies',
  'KUBE-MARK-MASQ': 'marks packets that KUBE-POSTROUTING is to masquerade',
  'KUBE-POSTROUTING': 'masquerades packets that KUBE-MARK-MASQ has marked',
  'KUBE-MARK-DROP': 'marks packets that KUBE-FIREWALL is to drop',
  'KUBE-FIREWALL': 'drops packets that must not pass',
  'KUBE-PROXY-FIREWALL':
    'drops packets to load balancers that do not come from their source ranges',
  'KUBE-SOURCE-RANGES-FIREWALL':
    'drops packets to load balancers that do not come from their source ranges',
  'KUBE-LOAD-BALANCER': 'marks packets to load balancers',
  'KUBE-IPVS-FILTER': 'rejects packets to ports of Service addresses that no Service has',
  'KUBE-IPVS-OUT-FILTER':
    'drops packets of the node to load balancers whose source ranges leave it out',
  'KUBE-PROXY-CANARY': 'shows kube-proxy by its absence that another program has flushed the table',
  'KUBE-PORTALS-CONTAINER': 'sends packets of Pods to the process of kube-proxy',
  'KUBE-PORTALS-HOST': 'sends packets of the node to the process of kube-proxy',
  'KUBE-NODEPORT-CONTAINER': 'sends packets to node ports to the process of kube-proxy',
  'KUBE-NODEPORT-HOST': 'sends packets of the node to node ports to the process of kube-proxy',
  'KUBE-NODEPORT-NON-LOCAL': 'accepts packets to node ports',
  'kube-ipvs0':
    'has the addresses of Services, so that the kernel delivers packets to them to IPVS',
  services: 'finds packets to Services by their destination',
  'service-ips': 'leads from the address and port of a Service to its chain',
  'service-nodeports': 'leads from a node port to the chain of its Service',
  'cluster-ips': 'lists the ClusterIPs of all Services',
  'nodeport-ips': 'lists the addresses of the node at which node ports are served',
  'no-endpoint-services': 'lists addresses of Services without endpoints',
  'no-endpoint-nodeports': 'lists node ports of Services without endpoints',
  'firewall-ips': 'lists load balancers with source ranges',
  'hairpin-connections': 'lists the connections of endpoints to themselves through their Service',
  'service-endpoints-check': 'stops packets to Services without endpoints',
  'nodeport-endpoints-check': 'stops packets to node ports without endpoints',
  'firewall-check': 'drops packets to load balancers that do not come from their source ranges',
  'cluster-ips-check': 'stops packets to ports of ClusterIPs that no Service has',
  masquerading: 'masquerades packets that are marked for it',
  'mark-for-masquerade': 'marks packets that the chain masquerading is to masquerade',
  'reject-chain': 'rejects packets: an element of a map can only lead to a chain',
}

/** What an entry is for that kube-proxy makes for no single Service, as a clause about it. */
export function purposeOf({ id, kind, text }: Entry): string {
  const [group, , inner = ''] = id.split('/')
  if (kind === 'table') return 'it keeps its rules in a table of its own'
  if (kind === 'set' && group === 'ipset') return 'it makes all of its sets when it starts'
  const name = entryName(inner === '' ? id : `/${inner}`).replace(/^(chain|set|map) /, '')
  if (kind === 'rule') {
    const target = targetOf(text) ?? /(?:jump|goto) (\S+)$/.exec(text)?.[1] ?? ''
    if (PURPOSES[target]) return `it leads to ${target}, which ${PURPOSES[target]}`
  }
  const purpose = PURPOSES[name]
  if (kind === 'chain' && !purpose) return 'the kernel runs its rules from this chain on'
  if (!purpose) return 'it makes this for several Services together'
  return kind === 'chain' || kind === 'map' || kind === 'set' || kind === 'link'
    ? `it ${purpose}`
    : `it belongs to ${name}, which ${purpose}`
}
