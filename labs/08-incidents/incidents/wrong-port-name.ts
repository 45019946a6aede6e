import type { ClusterActions } from '../../../course/incident/cluster-actions.ts'
import type { Incident } from '../../../course/incident/incident.ts'

const ports = (targetPort: string) => ({ spec: { ports: [{ port: 80, protocol: 'TCP', targetPort }] } })

export const wrongPortName: Incident = {
  id: 'wrong-port-name',
  cause: 'the Service names a port that its Pods do not have',
  mode: 'iptables',
  report: () =>
    'Customers in the cluster get "connection refused" from the shop. Its Pods are ready, and the labels are right, we checked that twice.',
  hints: [
    'The Service finds its Pods, and yet no packet is sent to them.',
    'An endpoint is an address and a port. Look at both in `kubectl get endpointslices -l kubernetes.io/service-name=shop -o yaml`.',
    'Compare `targetPort` of the Service with the names under `ports` in the Pods.',
  ],
  break: (actions) => actions.patchService('shop', ports('http')),
  symptom: (look) => look.customerOfShop(),
  causeLeft(look) {
    const port = look.service('shop')?.ports?.[0]?.targetPort
    return port === 'web' || port === 80 ? undefined : `the Service shop still has the target port "${port}"`
  },
  wrongFixes: [
    {
      what: 'the Service publishes Pods that are not ready',
      play: (actions: ClusterActions) => actions.patchService('shop', { spec: { publishNotReadyAddresses: true } }),
      undo: (actions: ClusterActions) => actions.patchService('shop', { spec: { publishNotReadyAddresses: null } }),
    },
  ],
  fix: {
    commands: () => [`kubectl patch service shop --type merge -p '${JSON.stringify(ports('web'))}'`],
    play: (actions) => actions.patchService('shop', ports('web')),
  },
  debrief: `A targetPort may be a name, which is looked up in each Pod. A Pod without that name gives an endpoint without a port, and
kube-proxy ignores it, because it identifies endpoints by the Service port's name and protocol. So the Service has Pods and no
endpoints, and the packet meets the same REJECT rule as if it had none.`,
}
