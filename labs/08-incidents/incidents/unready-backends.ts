import type { ClusterActions } from '../../../course/incident/cluster-actions.ts'
import type { Incident } from '../../../course/incident/incident.ts'

const probing = (path: string) => ({
  spec: {
    template: {
      spec: { containers: [{ name: 'nginx', readinessProbe: { httpGet: { path, port: 80 }, periodSeconds: 1 } }] },
    },
  },
})
const patch = JSON.stringify(probing('/'))

export const unreadyBackends: Incident = {
  id: 'unready-backends',
  cause: 'the Pods behind the Service run, but are not ready',
  mode: 'iptables',
  report: () =>
    'The shop is down for everybody since its last release. Its developers say that nginx runs in every Pod, and they are right.',
  hints: [
    'Running is not enough. Look at all columns of `kubectl get pods`.',
    'The EndpointSlice has the Pods, with a condition. Which one, and who decides it?',
    'Read the events in `kubectl describe pod -l app=shop`: what does the kubelet ask for, and what does nginx say to that?',
  ],
  async break(actions) {
    await actions.patchDeployment('shop', probing('/healthz'))
  },
  symptom: (look) => look.customerOfShop(),
  async causeLeft(look) {
    const { spec } = await look.live.client.apps.readNamespacedDeployment({ namespace: 'default', name: 'shop' })
    const probe = spec?.template.spec?.containers[0]?.readinessProbe
    if (!probe) return 'the shop has no readiness probe any more: nobody will notice when a Pod is not ready'
    const ready = look.backends().filter((pod) => pod.ready).length
    if (ready < 2) return `${ready} Pods of the shop are ready`
    return look.service('shop')?.publishNotReadyAddresses
      ? 'the Service shop publishes Pods that are not ready'
      : undefined
  },
  wrongFixes: [
    {
      what: 'the Service publishes Pods that are not ready',
      play: (actions: ClusterActions) => actions.patchService('shop', { spec: { publishNotReadyAddresses: true } }),
      undo: (actions: ClusterActions) => actions.patchService('shop', { spec: { publishNotReadyAddresses: null } }),
    },
  ],
  fix: {
    commands: () => [`kubectl patch deployment shop -p '${patch}'`, 'kubectl rollout status deployment/shop'],
    async play(actions) {
      await actions.patchDeployment('shop', probing('/'))
      await actions.shopReady()
    },
  },
  debrief: `Only ready endpoints get traffic. The probe of the new release asked for a page that nginx does not have, so the kubelet
called every Pod unready, and kube-proxy took all of them out. The Pods stay in the EndpointSlice with ready: false. The
probe was at fault, not the idea of probing: publishing unready Pods, or dropping the probe, hides the next real failure.`,
}
