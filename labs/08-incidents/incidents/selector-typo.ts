import type { ClusterActions } from '../../../course/incident/cluster-actions.ts'
import type { Incident } from '../../../course/incident/incident.ts'

const selecting = (app: string) => ({ spec: { selector: { app } } })
const BY_HAND = 'shop-by-hand'

/** An EndpointSlice that somebody writes because none comes by itself. */
async function sliceByHand({ client: { core, discovery } }: ClusterActions): Promise<void> {
  const { items } = await core.listNamespacedPod({ namespace: 'default', labelSelector: 'app=shop' })
  const endpoints = items.map(({ status, spec }) => ({
    addresses: [status?.podIP ?? ''],
    conditions: { ready: true },
    ...(spec?.nodeName && { nodeName: spec.nodeName }),
  }))
  const metadata = { name: BY_HAND, labels: { 'kubernetes.io/service-name': 'shop' } }
  const ports = [{ name: '', port: 80, protocol: 'TCP' }]
  await discovery.createNamespacedEndpointSlice({
    namespace: 'default',
    body: { metadata, addressType: 'IPv4', endpoints, ports },
  })
}

export const selectorTypo: Incident = {
  id: 'selector-typo',
  cause: 'the Service selects Pods by labels that no Pod has',
  mode: 'iptables',
  report: () =>
    'The shop refuses every customer in the cluster since a colleague tidied up our manifests. From outside, through the node port, it works.',
  hints: [
    'Two Services lead to the same Pods, and one of them works. What is different?',
    'Look at the endpoints of each Service: `kubectl get endpointslices -l lab=incidents`.',
    'Compare `kubectl get service shop shop-np -o wide` with the labels in `kubectl get pods --show-labels`.',
  ],
  break: (actions) => actions.patchService('shop', selecting('shoop')),
  symptom: (look) => look.customerOfShop(),
  causeLeft(look) {
    const wanted = JSON.stringify(look.service('shop')?.selector ?? {})
    return wanted === '{"app":"shop"}' ? undefined : `the Service shop selects ${wanted}`
  },
  wrongFixes: [
    {
      what: 'an EndpointSlice is written by hand',
      play: sliceByHand,
      undo: ({ client: { discovery } }) =>
        discovery.deleteNamespacedEndpointSlice({ namespace: 'default', name: BY_HAND }),
    },
  ],
  fix: {
    commands: () => [`kubectl patch service shop --type merge -p '${JSON.stringify(selecting('shop'))}'`],
    play: (actions) => actions.patchService('shop', selecting('shop')),
  },
  debrief: `A Service finds its Pods by labels, and it is no error if none match: the EndpointSlice is empty. kube-proxy then has nothing
to translate to. In iptables mode it writes a REJECT rule ("has no endpoints") into the filter table, which is why the refusal
came at once. An EndpointSlice written by hand would be right until the first Pod is replaced.`,
}
