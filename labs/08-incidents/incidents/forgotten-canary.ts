import { kubeProxy, kubeProxyPods } from '../../../cluster/kube-proxy/kube-proxy-pods.ts'
import type { Incident } from '../../../course/incident/incident.ts'
import { flush, typing } from '../../../course/typed-commands.ts'
import {
  moveToFirst,
  moveToSecond,
  prepareSecond,
  removeSecond,
} from '../../09-leaving-ipvs/second-kube-proxy.ts'

const NEXT = 'kube-proxy-next'

export const forgottenCanary: Incident = {
  id: 'forgotten-canary',
  cause: 'one node still runs another mode than the others, by a second DaemonSet of kube-proxy',
  mode: 'iptables',
  needs: ['ipvs'],
  stops: 'node',
  sign: 'If a node ran another mode, `curl localhost:10249/proxyMode` would say so there, and its kube-proxy Pod would belong to another DaemonSet.',
  report: ({ node, nodePort }) =>
    `Every node has an agent of ours that orders from the shop at 127.0.0.1:${nodePort}. On ${node} it gets no answer since Tuesday, when our colleagues tried something on one node and gave up. Customers in Pods of that node have no trouble.`,
  hints: [
    'Send the request of the agent on each node, then with the address of the node in place of 127.0.0.1. What differs on one node?',
    'Compare what this node has for the node port with another node: rules of nat, and `ipvsadm -Ln`. In which mode does each kube-proxy run?',
    'To which DaemonSet does the kube-proxy Pod of this node belong? `kubectl -n kube-system get daemonsets` shows its node selector. Give the node back, remove what only the trial needed, and what IPVS mode has written: `make flush-nat`.',
  ],
  async break(bench, { node }) {
    await prepareSecond(bench, 'ipvs')
    await moveToSecond(bench, node)
  },
  async symptom(context) {
    const { nodes, nodePort } = context.environment
    const url = `http://127.0.0.1:${nodePort}/`
    for (const node of nodes) {
      const answers = await context.fromNode(node, url)
      if (answers.every(({ status }) => status === 200)) continue
      return {
        inspect: `make exec NODE=${node} CMD='curl -sS --max-time 2 ${url}'`,
        expected: `an answer to the agent on ${node}`,
        actual: 'none',
      }
    }
    return undefined
  },
  causeLeft({ snapshot, environment: { node } }) {
    const pod = kubeProxyPods(snapshot.items).find(({ spec }) => spec?.nodeName === node)
    if (!pod) return `no kube-proxy runs on ${node}`
    if (pod.metadata.labels?.next === 'true')
      return `${node} has a kube-proxy of the DaemonSet ${NEXT}`
    return snapshot.find('DaemonSet', kubeProxy.namespace, NEXT)
      ? `the DaemonSet ${NEXT} is still there, and takes each node that gets its label`
      : undefined
  },
  fix: ({ node }) =>
    typing(
      {
        commands: [`kubectl label node ${node} kube-proxy-`],
        play: (bench) => moveToFirst(bench, node),
      },
      {
        commands: [
          `kubectl -n kube-system delete daemonset/${NEXT} configmap/${NEXT}`,
          `kubectl -n kube-system patch daemonset kube-proxy --type json -p '[{"op":"remove","path":"/spec/template/spec/affinity"}]'`,
        ],
        play: removeSecond,
      },
      flush,
    ),
  revert: removeSecond,
  debrief: `Each kube-proxy writes to its own node, so nodes in different modes work side by side, and most clients notice nothing. But a
mode decides more than speed: in iptables mode a node port is answered on 127.0.0.1, too, and IPVS mode has no virtual server
there. Without its label the node belongs to the first DaemonSet again. Virtual servers, sets and kube-ipvs0 stay until they
are removed.`,
}
