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
    "Since this morning's release the shop refuses every customer in the cluster. Its Pods are running and ready.",
  hints: [
    'The connection is refused. Find out by which machine: a node, or the Pod?',
    'Compare the port to which the packet is sent with the port on which the Pod listens: the DNAT rule on the node, and `ss -ltn` in the Pod.',
    'Look at the ports in `kubectl get endpointslices -l kubernetes.io/service-name=shop` and at `targetPort` of the Service.',
  ],
  break: (actions) => actions.patchService('shop', ports(8080)),
  symptom: (look) => look.customerOfShop(2),
  causeLeft(look) {
    const port = look.service('shop')?.ports?.[0]?.targetPort
    return port === 'web' || port === 80 ? undefined : `the Service shop still has the target port ${port}`
  },
  wrongFixes: [
    {
      what: 'the port is changed in the chains of one node',
      play: (actions: ClusterActions) => actions.onNode(actions.scene.node, rewrite(8080, 80)),
    },
  ],
  fix: {
    commands: () => [`kubectl patch service shop --type merge -p '${JSON.stringify(ports('web'))}'`],
    play: (actions) => actions.patchService('shop', ports('web')),
  },
  debrief: `kube-proxy relies on the EndpointSlice: address and targetPort. It never checks whether a process listens there, so the packet
reached the Pod, and the Pod's own kernel refused it. Refused at once means that the packet reached a kernel or a REJECT rule;
a Service without endpoints refuses as well, but then no Pod sees a packet.`,
}
