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
  cause: 'the Service sends each client to the same Pod as before',
  mode: 'iptables',
  report: () =>
    "The customer's batch job overloads one Pod of the shop while the other one is idle. The load was even until last week.",
  hints: [
    'Send a dozen requests from the customer and see which Pods log them. Then send some from a node.',
    'No request is lost, only the choice of the Pod is unusual. Read the first rules of the chain KUBE-SVC-… of the Service shop.',
    "Rules with `-m recent` store the client's address. Which field of the Service causes them?",
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
      what: 'the stored clients of the node are cleared',
      play: (actions: ClusterActions) => actions.onNode(actions.scene.node, forget),
    },
  ],
  fix: {
    commands: () => [`kubectl patch service shop --type merge -p '${JSON.stringify(affinity('None'))}'`],
    play: (actions) => actions.patchService('shop', affinity('None')),
  },
  debrief: `sessionAffinity: ClientIP keeps a client at its Pod for three hours after its last connection. In iptables mode this is a pair
of rules with -m recent for each endpoint, in IPVS mode a persistent virtual server. A batch job, a proxy or a masquerading
node counts as one client, however many users it serves, and adding Pods does not spread its load.`,
}
