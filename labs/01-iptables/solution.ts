// The reference solution of lab 1, played by `make solve-1` and, without a terminal, by
// `make lab-1`.

import { solveIncident } from '../../course/incident/solve-incident.ts'
import type { LabBench } from '../../course/lab-bench.ts'
import type { LabSolution } from '../../course/lab-solution.ts'
import {
  answers,
  apply,
  independent,
  podsReady,
  predictions,
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
const FORWARDED = 'PREROUTING,FORWARD,POSTROUTING'
const THERE_AND_BACK = 'PREROUTING,INPUT,OUTPUT,POSTROUTING'

/** The hash in the name of web's chain, computed on a node as in the lab. */
async function hashOfWeb(bench: LabBench): Promise<string> {
  const [node = ''] = await bench.cluster.nodes()
  const hash = 'sha256sum | head -c 64 | tr a-f A-F | basenc --base16 -d | base32 | head -c 16'
  return (await bench.onNode(node, `printf %s default/${bench.variant.name}tcp | ${hash}`)).trim()
}

const answer = answers(1)
const prediction = predictions(1)
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
        prediction('three-ways', FORWARDED, FORWARDED),
        onTwoNodes.inPod('client', `${CURL} http://$OTHER_IP:10256/healthz`),
        onTwoNodes.exec(['$NODE', `"${CURL} http://$OTHER_IP:10256/healthz"`]),
        answer('three-ways', 'POSTROUTING', 'POSTROUTING'),
      ),
    ),
    namespaces: prediction('namespaces', '0', '0'),
    families: independent(
      typing(
        onTwoNodes.exec(['$NODE', probe('ip6tables')]),
        prediction('families', THERE_AND_BACK, THERE_AND_BACK),
      ),
    ),
    'chain-name': answer(
      'chain-name',
      'KUBE-SVC-$HASH',
      async (bench) => `KUBE-SVC-${await hashOfWeb(bench)}`,
    ),
    chains: prediction('chains', '2', async (bench) => String((await bench.pods('web')).length)),
    'no-address': prediction('no-address', `'no interface'`, 'no interface'),
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
    ports: independent(typing(prediction('ports', '4', '4'), apply(SERVICES), podsReady('mirror'))),
    hairpin: prediction('hairpin', `'the node'`, 'the node'),
    'no-endpoints': prediction('no-endpoints', `'refused at once'`, 'refused at once'),
    rejected: onAnyNode.printed(
      answer,
      'rejected',
      '',
      `'iptables -t filter -S KUBE-SERVICES | sed -n "s/.*nobody.*--reject-with //p"'`,
    ),
    whole: readsOnly,
    incident: solveIncident(1),
  },

  comments: ['probe'],

  async leave(bench) {
    await Promise.all([CLIENT, SERVICES].map((file) => bench.remove(file)))
  },
}
