import { defaultConfig, type KubeProxyConfig } from '../../../dataplane/kube-proxy/config.ts'
import type { NodeState } from '../../../dataplane/node-state.ts'
import { readObjects } from '../../../dataplane/objects.ts'
import { type PredictOptions, predict } from '../../../dataplane/predict.ts'

export interface Backend {
  ip: string
  node?: string
  conditions?: object
  hints?: object
}

const here = {
  name: 'w',
  spec: { podCIDR: '10.244.1.0/24' },
  addresses: ['172.18.0.3', 'fd00:18::3'],
}

/** The Node `w`, one Service `default/web` with port 80 to 8080, and its endpoints. */
export function oneService(
  spec: object,
  backends: Backend[],
  status: object = {},
  metadata: object = {},
) {
  const v6 = backends.some((backend) => backend.ip.includes(':'))
  return readObjects({
    kind: 'List',
    items: [
      {
        kind: 'Node',
        metadata: { name: here.name, labels: { 'topology.kubernetes.io/zone': 'a' } },
        spec: here.spec,
        status: { addresses: here.addresses.map((address) => ({ type: 'InternalIP', address })) },
      },
      {
        kind: 'Service',
        metadata: { namespace: 'default', name: 'web', ...metadata },
        spec: {
          clusterIP: v6 ? 'fd00:96::1' : '10.96.0.7',
          ports: [{ port: 80, protocol: 'TCP' }],
          ...spec,
        },
        status,
      },
      {
        kind: 'EndpointSlice',
        metadata: {
          namespace: 'default',
          name: 'web-1',
          labels: { 'kubernetes.io/service-name': 'web' },
        },
        addressType: v6 ? 'IPv6' : 'IPv4',
        ports: [{ name: '', port: 8080, protocol: 'TCP' }],
        endpoints: backends.map(({ ip, node, conditions, hints }) => ({
          addresses: [ip],
          nodeName: node ?? 'other',
          conditions: conditions ?? { ready: true },
          ...(hints ? { hints } : {}),
        })),
      },
    ],
  }).objects
}

export const WEB = 'LOLE4ISW44XBNF3G'

type Options = Partial<PredictOptions> & { with?: Partial<KubeProxyConfig> }

export function predictOn(
  objects: ReturnType<typeof oneService>,
  version: string,
  options: Options = {},
): NodeState {
  const config = { ...defaultConfig(), clusterCIDR: '10.244.0.0/16', ...options.with }
  return predict(objects, { node: 'w', mode: 'iptables', version, config, ...options })
}

export const rulesOf = (state: NodeState, table: string, chain: string): string[] | undefined =>
  state.iptables
    .get(table)
    ?.get(chain)
    ?.rules.map((rule) => rule.spec)
