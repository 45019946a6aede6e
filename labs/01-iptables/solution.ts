// The reference solution of lab 1, played by `make solve-1` and, without a terminal, by `make lab-1`.

import type { LabBench } from '../../course/lab-bench.ts'
import type { LabSolution } from '../../course/lab-solution.ts'
import {
  answers,
  apply,
  independent,
  podsReady,
  readsOnly,
  typing,
  web,
  withVariables,
} from '../../course/typed-commands.ts'

const MANIFESTS = 'labs/01-iptables/manifests'
const CLIENT = `${MANIFESTS}/client.yaml`
const SERVICES = `${MANIFESTS}/three-services.yaml`

const HOOKS = 'PREROUTING INPUT FORWARD OUTPUT POSTROUTING'
const probe = (command: string) =>
  `'for HOOK in ${HOOKS}; do ${command} -t mangle -A $HOOK -p tcp --syn --dport 10256 -m comment --comment probe; done'`
const CURL = 'curl -s --max-time 3'

/** The hash in the name of web's chain, computed on a node as in the lab. */
async function hashOfWeb(bench: LabBench): Promise<string> {
  const [node = ''] = await bench.cluster.nodes()
  const hash = 'sha256sum | head -c 64 | tr a-f A-F | basenc --base16 -d | base32 | head -c 16'
  return (await bench.onNode(node, `printf %s default/${bench.variant.name}tcp | ${hash}`)).trim()
}

const answer = answers(1, 'make answer')
const onAnyNode = withVariables(async (bench) => ({ CHAIN: `KUBE-SVC-${await hashOfWeb(bench)}` }))
/** With the names and addresses of the client Pod's node and of another one. */
const onTwoNodes = withVariables(async (bench) => {
  const { spec } = await bench.client.core.readNamespacedPod({
    namespace: 'default',
    name: 'client',
  })
  const nodes = await bench.nodes()
  const own = nodes.find(({ name }) => name === spec?.nodeName)
  const other = nodes.find((node) => node !== own)
  if (!own || !other) throw new Error(`The node "${spec?.nodeName}" has no neighbour.`)
  return { NODE: own.name, NODE_IP: own.address, OTHER: other.name, OTHER_IP: other.address }
})

export const solution: LabSolution = {
  steps: {
    mode: onAnyNode.printed(answer, 'mode', '', "'curl -s localhost:10249/proxyMode'"),
    web: independent(web),
    probes: independent(
      typing(apply(CLIENT), podsReady('client'), onTwoNodes.exec(['$NODE', probe('iptables')])),
    ),
    'three-ways': independent(
      typing(
        onTwoNodes.exec(['$OTHER', `"${CURL} http://$NODE_IP:10256/healthz"`]),
        onTwoNodes.inPod('client', `${CURL} http://$OTHER_IP:10256/healthz`),
        onTwoNodes.exec(['$NODE', `"${CURL} http://$OTHER_IP:10256/healthz"`]),
      ),
    ),
    namespaces: readsOnly,
    families: independent(onTwoNodes.exec(['$NODE', probe('ip6tables')])),
    'chain-name': answer(
      'chain-name',
      'KUBE-SVC-$HASH',
      async (bench) => `KUBE-SVC-${await hashOfWeb(bench)}`,
    ),
    chains: readsOnly,
    'no-address': readsOnly,
    scale: {
      commands: ['kubectl scale deployment web --replicas=5'],
      play: (bench) => bench.scale(bench.variant.name, 5),
    },
    probability: onAnyNode.printed(
      answer,
      'probability',
      '',
      `"iptables -t nat -S $CHAIN | sed -n 's/.*--probability \\([0-9.]*\\).*/\\1/p' | sed -n 2p"`,
    ),
    shares: readsOnly,
    ports: independent(typing(apply(SERVICES), podsReady('mirror'))),
    hairpin: readsOnly,
    'no-endpoints': readsOnly,
    rejected: onAnyNode.printed(
      answer,
      'rejected',
      '',
      `'iptables -t filter -S KUBE-SERVICES | sed -n "s/.*nobody.*--reject-with //p"'`,
    ),
    whole: readsOnly,
  },

  comments: ['probe'],

  async leave(bench) {
    await Promise.all([CLIENT, SERVICES].map((file) => bench.remove(file)))
  },
}
