import type { ClusterActions } from '../../../course/incident/cluster-actions.ts'
import type { Incident } from '../../../course/incident/incident.ts'

const ports = (targetPort: string | number) => ({ spec: { ports: [{ port: 80, protocol: 'TCP', targetPort }] } })

/** On one node, the port in kube-proxy's own chains. */
const rewrite = (from: number, to: number) =>
  `iptables-save -t nat | sed -E 's/(--to-destination [0-9.]+):${from}$/\\1:${to}/' | iptables-restore`

export const wrongTargetPort: Incident = {
  id: 'wrong-target-port',
  cause: 'the Service sends packets to a port on which its Pods do not listen',
  mode: 'iptables',
  report: () =>
    'Since the release of this morning the shop refuses every customer in the cluster. Its Pods are running and ready.',
  hints: [
    'Somebody refuses. Find out who: a node, or the Pod?',
    'Compare where the packet is sent in the end with where the Pod listens: `ss -ltn` in the Pod, the DNAT rule on the node.',
    'Look at the ports in `kubectl get endpointslices -l kubernetes.io/service-name=shop` and at `targetPort` of the Service.',
  ],
  break: (actions) => actions.patchService('shop', ports(8080)),
  symptom: (look) => look.customerOfShop(2),
  causeLeft(look) {
    const port = look.service('shop')?.ports?.[0]?.targetPort
    return port === 'web' || port === 80 ? undefined : `the Service shop still asks for the port ${port} of its Pods`
  },
  wrongFixes: [
    {
      what: 'the port is rewritten in the chains of one node',
      play: (actions: ClusterActions) => actions.onNode(actions.scene.node, rewrite(8080, 80)),
    },
  ],
  fix: {
    commands: () => [`kubectl patch service shop --type merge -p '${JSON.stringify(ports('web'))}'`],
    play: (actions) => actions.patchService('shop', ports('web')),
  },
  debrief: `kube-proxy believes what the EndpointSlice says: address and targetPort. It never asks whether somebody listens there, so
the packet reached the Pod, and the Pod's own kernel refused it. Refused at once means that somebody was reached; a Service
without endpoints refuses as well, but then no Pod sees a packet.`,
}
