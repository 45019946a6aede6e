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
    'The shop is down for all users since its last release. Its developers say that nginx runs in every Pod, and they are right.',
  hints: [
    'Running is not enough. Look at all columns of `kubectl get pods`.',
    'The EndpointSlice contains the Pods, with a condition. Which one, and what sets it?',
    'Read the events in `kubectl describe pod -l app=shop`: which page does the kubelet request, and what does nginx answer?',
  ],
  async break(actions) {
    await actions.patchDeployment('shop', probing('/healthz'))
  },
  symptom: (look) => look.customerOfShop(),
  async causeLeft(look) {
    const { spec } = await look.live.client.apps.readNamespacedDeployment({ namespace: 'default', name: 'shop' })
    const probe = spec?.template.spec?.containers[0]?.readinessProbe
    if (!probe) return 'the readiness probe of the shop was removed: Pods that are not ready would get traffic'
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
  debrief: `Only ready endpoints get traffic. The probe of the new release requested a page that nginx does not have, so the kubelet
marked every Pod as not ready, and kube-proxy removed all of them. The Pods stay in the EndpointSlice with ready: false. The
probe was wrong, not the idea of probing: publishing Pods that are not ready, or removing the probe, hides the next real
failure.`,
}
