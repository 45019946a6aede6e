import type { ClusterActions } from '../../../course/incident/cluster-actions.ts'
import type { Incident } from '../../../course/incident/incident.ts'

const realsOf = (shop: string) => `ipvsadm -Sn | sed -nE 's/^-a -t ${shop}:80 -r (\\S+) .*/\\1/p'`
const weights = (actions: ClusterActions, weight: number, which = '') => {
  const { node, shop } = actions.scene
  const each = `ipvsadm -e -t ${shop}:80 -r $real -m -w ${weight}`
  return actions.onNode(node, `for real in $(${realsOf(shop)}${which}); do ${each}; done`)
}

export const weightZero: Incident = {
  id: 'weight-zero',
  cause: 'real servers have weight 0 and get no new connections',
  mode: 'ipvs',
  report: ({ node }) =>
    `After maintenance of ${node}, new connections of its Pods to the shop fail, although old ones worked for hours. Other nodes work.`,
  hints: [
    'The virtual server and its real servers exist. Look at every column of `ipvsadm -Ln`.',
    'Compare the weights on this node with those on another one.',
    'Weight 0 means "no new connections". kube-proxy corrects weights when it starts, and not in its regular syncs.',
  ],
  break: (actions) => weights(actions, 0),
  symptom: (look) => look.customerOfShop(4),
  causeLeft({ snapshot, scene }) {
    const server = snapshot
      .node(scene.node)
      .state.virtualServers.find(({ address, port }) => address === scene.shop && port === 80)
    const idle = server?.realServers.filter(({ weight }) => weight === 0) ?? []
    return idle.length > 0
      ? `${idle.length} real servers of ${scene.shop}:80 on ${scene.node} have weight 0`
      : undefined
  },
  wrongFixes: [
    {
      what: 'only one of them gets its weight back',
      play: (actions: ClusterActions) => weights(actions, 1, ' | head -n 1'),
    },
  ],
  fix: {
    commands: ({ node }) => [
      `kubectl -n kube-system delete pod -l k8s-app=kube-proxy --field-selector spec.nodeName=${node}`,
    ],
    play: (actions) => actions.replaceKubeProxyPod(actions.scene.node),
  },
  debrief: `Weight 0 drains a real server: existing connections continue, new ones are not sent to it. kube-proxy itself uses it for
endpoints that are being removed. It does not check the weights of endpoints that stay, except in its first sync, so a manual
drain lasts until then unless it is undone.`,
}
