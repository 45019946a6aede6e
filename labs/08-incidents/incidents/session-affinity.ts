import type { ClusterActions } from '../../../course/incident/cluster-actions.ts'
import type { Incident } from '../../../course/incident/incident.ts'

const affinity = (sessionAffinity: 'ClientIP' | 'None') => ({
  spec: { sessionAffinity, ...(sessionAffinity === 'None' && { sessionAffinityConfig: null }) },
})
/** Empties what a node remembers of clients; the next request is remembered again. */
const forget = 'for list in /proc/net/xt_recent/KUBE-SEP-*; do echo / >"$list"; done'

/** So many requests all go to one of two Pods by chance once in two thousand times. */
const REQUESTS = 12

export const sessionAffinity: Incident = {
  id: 'session-affinity',
  cause: 'the Service sends a client to the Pod that it was sent to before',
  mode: 'iptables',
  report: () =>
    "The customer's batch job brings one Pod of the shop to its knees while the other one idles. It was even until last week.",
  hints: [
    'Send a dozen requests from the customer and read who logs them. Then send some from a node.',
    'Nothing is lost, only the choice is odd. Read the first rules of the chain KUBE-SVC-… that belongs to the Service shop.',
    'Rules with `-m recent` remember the client. Which field of the Service asks for them?',
  ],
  break: (actions) => actions.patchService('shop', affinity('ClientIP')),
  async symptom(look) {
    const shares = await look.shares(REQUESTS)
    const served = [...shares.values()].filter((count) => count > 0).length
    if (served >= Math.min(2, shares.size) && shares.size >= 2) return undefined
    const parts = [...shares].map(([pod, count]) => `${pod} ${count}`).join(', ')
    return {
      look: 'kubectl logs -l app=shop --prefix --tail=20',
      expected: `${REQUESTS} requests of the customer spread over the Pods of the shop`,
      actual: parts || 'no Pod of the shop is ready',
    }
  },
  causeLeft: (look) =>
    look.service('shop')?.sessionAffinity === 'ClientIP' ? 'the Service shop has sessionAffinity ClientIP' : undefined,
  wrongFixes: [
    {
      what: 'the node is made to forget',
      play: (actions: ClusterActions) => actions.onNode(actions.scene.node, forget),
    },
  ],
  fix: {
    commands: () => [`kubectl patch service shop --type merge -p '${JSON.stringify(affinity('None'))}'`],
    play: (actions) => actions.patchService('shop', affinity('None')),
  },
  debrief: `sessionAffinity: ClientIP keeps a client at its Pod for three hours after its last connection. In iptables mode that is a pair
of rules with -m recent for each endpoint, in IPVS mode a persistent virtual server. A job, a proxy or a masqueraded node
is one client, however many people stand behind it, and more Pods do not help it.`,
}
