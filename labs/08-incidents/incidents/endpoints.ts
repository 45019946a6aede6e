import type { Incident } from '../../../course/incident/incident.ts'
import type { IncidentContext } from '../../../course/incident/incident-context.ts'
import { patchService, rolledOut, typing } from '../../../course/typed-commands.ts'

const selecting = (app: string) => ({ spec: { selector: { app } } })
export const selectorTypo: Incident = {
  id: 'selector-typo',
  cause: 'the Service selects Pods by labels that no Pod has',
  mode: 'iptables',
  stops: 'rejected',
  sign: 'If its labels matched no Pod, the EndpointSlice of the Service would be empty: `kubectl get endpointslices -l lab=incidents`.',
  report: () =>
    'The shop refuses every customer in the cluster since a colleague tidied up our manifests. From outside, through the node port, it works.',
  hints: [
    'Two Services lead to the same Pods, and one of them works. What is different?',
    'Look at the endpoints of each Service: `kubectl get endpointslices -l lab=incidents`.',
    'Compare `kubectl get service shop shop-np -o wide` with the labels in `kubectl get pods --show-labels`.',
  ],
  break: (bench) => bench.patch('Service', 'shop', selecting('shoop')),
  symptom: (context) => context.customerOfShop(),
  causeLeft(context) {
    const wanted = JSON.stringify(context.service('shop')?.selector ?? {})
    return wanted === '{"app":"shop"}' ? undefined : `the Service shop selects ${wanted}`
  },
  fix: () => patchService('shop', selecting('shop')),
  debrief: `A Service finds its Pods by labels, and it is no error if none match: the EndpointSlice is empty. kube-proxy then has nothing
to translate to. In iptables mode it writes a REJECT rule ("has no endpoints") into the filter table, which is why the refusal
came at once. An EndpointSlice written by hand would be right until the first Pod is replaced.`,
}

const ports = (targetPort: string | number) => ({
  spec: { ports: [{ port: 80, protocol: 'TCP', targetPort }] },
})

function wrongPort(context: IncidentContext): string | undefined {
  const port = context.service('shop')?.ports?.[0]?.targetPort
  return port === 'web' || port === 80
    ? undefined
    : `the Service shop still has the target port "${port}"`
}

export const wrongPortName: Incident = {
  id: 'wrong-port-name',
  cause: 'the Service names a port that its Pods do not have',
  mode: 'iptables',
  stops: 'rejected',
  sign: 'If the Pods had no port of that name, the EndpointSlice would list no port for its addresses: `kubectl get endpointslices -l kubernetes.io/service-name=shop -o yaml`.',
  report: () =>
    'Customers in the cluster get "connection refused" from the shop. Its Pods are ready, and the labels are right, we checked that twice.',
  hints: [
    'The Service finds its Pods, and yet no packet is sent to them.',
    'An endpoint is an address and a port. Look at both in `kubectl get endpointslices -l kubernetes.io/service-name=shop -o yaml`.',
    'Compare `targetPort` of the Service with the names under `ports` in the Pods.',
  ],
  break: (bench) => bench.patch('Service', 'shop', ports('http')),
  symptom: (context) => context.customerOfShop(),
  causeLeft: wrongPort,
  fix: () => patchService('shop', ports('web')),
  debrief: `A targetPort may be a name, which is looked up in each Pod. A Pod without that name gives an endpoint without a port, and
kube-proxy ignores it, because it identifies endpoints by the Service port's name and protocol. So the Service has Pods and no
endpoints, and the packet meets the same REJECT rule as if it had none.`,
}

export const wrongTargetPort: Incident = {
  id: 'wrong-target-port',
  cause: 'the Service sends packets to a port on which its Pods do not listen',
  mode: 'iptables',
  stops: 'pod',
  sign: "If the Pods did not listen on the port, the DNAT rule would name another port than `ss -ltn` lists in a Pod, and the Pod's own kernel would refuse the connection.",
  report: () =>
    "Since this morning's release the shop refuses every customer in the cluster. Its Pods are running and ready.",
  hints: [
    'The connection is refused. Find out by which machine: a node, or the Pod?',
    'Compare the port to which the packet is sent with the port on which the Pod listens: the DNAT rule on the node, and `ss -ltn` in the Pod.',
    'Look at the ports in `kubectl get endpointslices -l kubernetes.io/service-name=shop` and at `targetPort` of the Service.',
  ],
  break: (bench) => bench.patch('Service', 'shop', ports(8080)),
  symptom: (context) => context.customerOfShop(2),
  causeLeft: wrongPort,
  fix: () => patchService('shop', ports('web')),
  debrief: `kube-proxy relies on the EndpointSlice: address and targetPort. It never checks whether a process listens there, so the packet
reached the Pod, and the Pod's own kernel refused it. Refused at once means that the packet reached a kernel or a REJECT rule;
a Service without endpoints refuses as well, but then no Pod sees a packet.`,
}

const probing = (path: string) => ({
  spec: {
    template: {
      spec: {
        containers: [
          { name: 'nginx', readinessProbe: { httpGet: { path, port: 80 }, periodSeconds: 1 } },
        ],
      },
    },
  },
})

export const unreadyBackends: Incident = {
  id: 'unready-backends',
  cause: 'the Pods behind the Service run, but are not ready',
  mode: 'iptables',
  stops: 'rejected',
  sign: 'If the Pods were not ready, `kubectl get pods` would show 0/1 in the column READY.',
  report: () =>
    'The shop is down for all users since its last release. Its developers say that nginx runs in every Pod, and they are right.',
  hints: [
    'Running is not enough. Look at all columns of `kubectl get pods`.',
    'The EndpointSlice contains the Pods, with a condition. Which one, and what sets it?',
    'Read the events in `kubectl describe pod -l app=shop`: which page does the kubelet request, and what does nginx answer?',
  ],
  break: (bench) => bench.patch('Deployment', 'shop', probing('/healthz')),
  symptom: (context) => context.customerOfShop(),
  async causeLeft(context) {
    const { spec } = await context.live.client.apps.readNamespacedDeployment({
      namespace: 'default',
      name: 'shop',
    })
    const probe = spec?.template.spec?.containers[0]?.readinessProbe
    if (!probe)
      return 'the readiness probe of the shop was removed: Pods that are not ready would get traffic'
    const ready = context.backends().filter((pod) => pod.ready).length
    if (ready < 2) return `${ready} Pods of the shop are ready`
    return context.service('shop')?.publishNotReadyAddresses
      ? 'the Service shop publishes Pods that are not ready'
      : undefined
  },
  fix: () =>
    typing(
      {
        commands: [`kubectl patch deployment shop -p '${JSON.stringify(probing('/'))}'`],
        play: (bench) => bench.patch('Deployment', 'shop', probing('/')),
      },
      rolledOut('Deployment', 'shop'),
    ),
  debrief: `Only ready endpoints get traffic. The probe of the new release requested a page that nginx does not have, so the kubelet
marked every Pod as not ready, and kube-proxy removed all of them. The Pods stay in the EndpointSlice with ready: false. The
probe was wrong, not the idea of probing: publishing Pods that are not ready, or removing the probe, hides the next real
failure.`,
}
