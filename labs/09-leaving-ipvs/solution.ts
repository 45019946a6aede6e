// The reference solution of lab 9, played by `make solve-9` and, without a terminal, by
// `make lab-9`.

import { execInPod } from '../../cluster/context/pod-exec.ts'
import { kubeProxy, listKubeProxyPods } from '../../cluster/kube-proxy/kube-proxy-pods.ts'
import { modeLacks } from '../../cluster/kube-proxy/module-check.ts'
import { deployWeb } from '../../course/deploy-web.ts'
import { solveIncident } from '../../course/incident/solve-incident.ts'
import type { LabBench } from '../../course/lab-bench.ts'
import type { LabSolution, SolutionStep } from '../../course/lab-solution.ts'
import { answers, flush, predictions, typing } from '../../course/typed-commands.ts'
import { notesName } from '../../grading/lab-notes.ts'
import { programText } from '../../host/program-text.ts'
import { scaledMs, waitFor } from '../../host/wait.ts'
import { balancedAddress, endOutside, startOutside } from './outside-client.ts'
import {
  moveToFirst,
  moveToSecond,
  prepareSecond,
  removeSecond,
  returnToFirst,
} from './second-kube-proxy.ts'

const LAB = 9
const FOLDER = 'labs/09-leaving-ipvs'
const MANIFESTS = `${FOLDER}/manifests`
const ownSource = programText(`${FOLDER}/own-source.sh`)
const awaitNoNeed = programText(`${FOLDER}/await-no-need.sh`)
/** Chains that drop what is not translated, to node ports and to ClusterIPs. */
const GAP =
  'add table ip handover; add chain ip handover in { type filter hook input priority 200; }; add rule ip handover in tcp dport 30000-32767 ct state new drop; add chain ip handover own { type filter hook output priority 200; }; add rule ip handover own fib daddr type local tcp dport 30000-32767 ct state new drop; add chain ip handover out { type filter hook postrouting priority 200; }; add rule ip handover out ip daddr 10.96.0.0/16 ct state new drop'
const toBalancer = (address: string) =>
  `; add rule ip handover out ip daddr ${address} ct state new drop`
const NODES = "$(kubectl get nodes -o jsonpath='{.items[*].metadata.name}')"

const answer = answers(LAB)
const predictAt = predictions(LAB)

/** The mode that the lab starts in: IPVS where the kernel has it. */
async function startMode(bench: LabBench): Promise<'ipvs' | 'iptables'> {
  const lacks = await modeLacks(bench.cluster, await bench.cluster.nodes(), 'ipvs', 'rr')
  return lacks === undefined ? 'ipvs' : 'iptables'
}
/** The two modes of this cluster's change. */
async function change(bench: LabBench) {
  const from = await startMode(bench)
  return { from, to: from === 'ipvs' ? 'iptables' : 'nftables' } as const
}
/** What one of the two changes needs, by the mode that it leaves. */
const byStart =
  (fromIpvs: string, fromIptables: string) =>
  async (bench: LabBench): Promise<string> =>
    (await startMode(bench)) === 'ipvs' ? fromIpvs : fromIptables

const canaryOf = async (bench: LabBench) => (await bench.cluster.nodes())[1] ?? ''

/** The clients have had answers from all their targets. */
async function clientsRun(bench: LabBench): Promise<void> {
  await Promise.all(
    ['traffic-pod', 'traffic-node'].map((name) => bench.rolledOut('DaemonSet', name)),
  )
  const names = (await bench.pods('traffic')).map(({ metadata }) => metadata?.name ?? '')
  await waitFor('answers for every client', 60_000, async () => {
    const logs = await Promise.all(
      names.map((name) =>
        bench.client.core.readNamespacedPodLog({ namespace: 'default', name, tailLines: 1 }),
      ),
    )
    return logs.every((log) => /^new=[1-9]/m.test(log ?? ''))
  })
}

const traffic: SolutionStep = {
  commands: [
    'make web',
    `kubectl apply -f ${MANIFESTS}/services.yaml -f ${MANIFESTS}/clients-$FROM.yaml -f ${MANIFESTS}/traffic.yaml`,
    `PROGRAM=$(kubectl get configmap traffic-program -o jsonpath='{.data.traffic\\.pl}' | base64 | tr -d '\\n')`,
    `TARGETS=$(kubectl get nodes -o jsonpath='{range .items[*]}{.status.addresses[?(@.type=="InternalIP")].address}:30091 {end}'; kubectl get service stock -o jsonpath='{range .status.loadBalancer.ingress[*]}{.ip}:80{end}')`,
    `make exec NODE=outside CMD="set -- $PROGRAM $TARGETS; $(cat ${FOLDER}/outside-client.sh)"`,
  ],
  play: async (bench) => {
    const { from } = await change(bench)
    await deployWeb(bench)
    await Promise.all(
      ['services', `clients-${from}`].map((name) => bench.apply(`${MANIFESTS}/${name}.yaml`)),
    )
    await bench.apply(`${MANIFESTS}/traffic.yaml`)
    await Promise.all([clientsRun(bench), startOutside(bench)])
  },
}

const mend: SolutionStep = {
  commands: [
    `[ $FROM != ipvs ] || kubectl patch service stock -p '{"spec":{"internalTrafficPolicy":"Cluster"}}'`,
    `[ $FROM != iptables ] || { kubectl patch configmap traffic -p '{"data":{"node":"orders own-node:30090"}}'; kubectl rollout restart daemonset/traffic-node; }`,
  ],
  play: async (bench) => {
    const { from } = await change(bench)
    if (from === 'ipvs')
      return bench.patch('Service', 'stock', { spec: { internalTrafficPolicy: 'Cluster' } })
    await bench.patch('ConfigMap', 'traffic', { data: { node: 'orders own-node:30090' } })
    const annotations = { 'kube-service-labs/targets': 'own-node' }
    await bench.patch('DaemonSet', 'traffic-node', {
      spec: { template: { metadata: { annotations } } },
    })
    await clientsRun(bench)
  },
}

const second: SolutionStep = {
  commands: [
    `kubectl -n kube-system get configmap kube-proxy -o yaml | sed "s/^    mode: .*/    mode: $TO/" | kubectl patch --local -f - --type json --patch-file ${MANIFESTS}/next-configmap.json -o yaml | kubectl apply -f -`,
    `kubectl -n kube-system get daemonset kube-proxy -o yaml | kubectl patch --local -f - --type json --patch-file ${MANIFESTS}/next-daemonset.json -o yaml | kubectl apply -f -`,
    `kubectl -n kube-system patch daemonset kube-proxy --patch-file ${MANIFESTS}/elsewhere.json`,
  ],
  play: async (bench) => prepareSecond(bench, (await change(bench)).to),
}

const handover: SolutionStep = {
  commands: [
    `GAP='${GAP}'`,
    `LB=$(kubectl get service stock -o jsonpath='{.status.loadBalancer.ingress[0].ip}')`,
    `[ -z "$LB" ] || GAP="$GAP${toBalancer('$LB')}"`,
    `[ $TO != nftables ] || for N in ${NODES}; do make -s exec NODE=$N CMD="nft '$GAP'"; done`,
  ],
  play: async (bench) => {
    if ((await change(bench)).to !== 'nftables') return
    const address = bench.cluster.capabilities.hasOutside ? await balancedAddress(bench) : undefined
    await bench.onEveryNode(`nft '${GAP}${address === undefined ? '' : toBalancer(address)}'`)
  },
}

const canary: SolutionStep = {
  commands: [
    'kubectl label node $FIRST kube-proxy=next',
    `kubectl -n kube-system wait daemonset/kube-proxy-next --for=jsonpath='{.status.numberReady}'=1 --timeout=60s`,
  ],
  play: async (bench) => moveToSecond(bench, await canaryOf(bench)),
}

const back: SolutionStep = {
  commands: ['kubectl label node $FIRST kube-proxy-'],
  play: async (bench) => moveToFirst(bench, await canaryOf(bench)),
}

const forward: SolutionStep = {
  commands: [
    `COUNT=0; for N in $(kubectl get nodes -o name); do kubectl label $N kube-proxy=next; COUNT=$((COUNT+1)); kubectl -n kube-system wait daemonset/kube-proxy-next --for=jsonpath='{.status.numberReady}'=$COUNT --timeout=60s; done`,
  ],
  play: async (bench) => {
    for (const node of await bench.cluster.nodes()) await moveToSecond(bench, node)
  },
}

const first: SolutionStep = {
  commands: [
    `kubectl -n kube-system get configmap kube-proxy -o yaml | sed "s/^    mode: .*/    mode: $TO/" | kubectl replace -f -`,
    'for N in $(kubectl get nodes -o name); do kubectl label $N kube-proxy-; kubectl -n kube-system rollout status daemonset/kube-proxy --timeout=90s; done',
    'kubectl -n kube-system delete daemonset/kube-proxy-next configmap/kube-proxy-next',
    `kubectl -n kube-system patch daemonset kube-proxy --type json -p '[{"op":"remove","path":"/spec/template/spec/affinity"}]'`,
  ],
  play: async (bench) => returnToFirst(bench, (await change(bench)).to),
}

/**
 * The source address of the canary's own request to orders; empty where the lab does not start in
 * IPVS mode.
 */
async function sourceNow(bench: LabBench): Promise<string> {
  const { clusterIP } = await bench.service('orders')
  const route = await bench.onNode(await canaryOf(bench), `ip route get ${clusterIP}`)
  return / src (\S+)/.exec(route)?.[1] ?? ''
}

const onEach = (file: string) =>
  `for N in ${NODES}; do make -s exec NODE=$N CMD="$(cat ${FOLDER}/${file})"; done`

const ended: SolutionStep = {
  commands: [onEach('own-source.sh'), onEach('await-no-need.sh')],
  play: async (bench) => {
    if ((await change(bench)).from !== 'ipvs') return
    await bench.onEveryNode(ownSource)
    await bench.onEveryNode(awaitNoNeed)
  },
}

const clean = typing(flush, {
  commands: [
    `[ $TO != nftables ] || for N in ${NODES}; do make -s exec NODE=$N CMD='nft delete table ip handover'; done`,
  ],
  play: async (bench) => {
    if ((await change(bench)).to === 'nftables')
      await bench.onEveryNode('nft delete table ip handover')
  },
})

const SOURCE = `"$(make -s exec NODE=$FIRST CMD="ip route get $(kubectl get service orders -o jsonpath='{.spec.clusterIP}')" | sed -n 's/.* src \\([0-9.]*\\).*/\\1/p')"`
const DIFFERENCES = `"$(node --import tsx scripts/expect.ts --diff captures/lab-9 --node $FIRST --mode $TO | grep -q stale && echo stale || echo none)"`

/**
 * The kind of differences on the canary: stale if a chain of the old mode is left. The kubelet's
 * own chains are none.
 */
async function kindOnCanary(bench: LabBench): Promise<string> {
  const chains = "iptables-save | grep '^:KUBE-' | grep -vc 'KUBELET\\|FIREWALL' || true"
  return (await bench.onNode(await canaryOf(bench), chains)).trim() === '0' ? 'none' : 'stale'
}

/** For kube-proxy --cleanup, which starts a program for each set. */
const CLEANUP_MS = 120_000

/**
 * Leaves IPVS mode's traces on every node again, and cleans one of them with kube-proxy's own
 * program.
 */
const cleanup: SolutionStep = {
  commands: [
    '[ $FROM != ipvs ] || { make ipvs && make iptables; }',
    'PROXY=$(kubectl -n kube-system get pods -l k8s-app=kube-proxy --field-selector spec.nodeName=$FIRST -o name)',
    '[ $FROM != ipvs ] || kubectl -n kube-system exec $PROXY -- kube-proxy --cleanup || true',
    '[ $FROM != ipvs ] || kubectl -n kube-system delete $PROXY',
  ],
  play: async (bench) => {
    if ((await change(bench)).from !== 'ipvs') return
    await bench.mode('ipvs')
    await bench.mode('iptables')
    const node = await canaryOf(bench)
    const { pod = '' } =
      (await listKubeProxyPods(bench.client)).find((one) => one.node === node) ?? {}
    await execInPod(
      bench.client,
      { namespace: kubeProxy.namespace, name: pod },
      ['kube-proxy', '--cleanup'],
      { timeoutMs: scaledMs(CLEANUP_MS) },
    )
    await bench.replaceKubeProxyPod(node)
  },
}

const shopIncident = solveIncident(LAB)
const incident: SolutionStep = {
  ...shopIncident,
  commands: shopIncident.commands.map((command) => `[ $FROM != ipvs ] || ${command}`),
  play: async (bench) => {
    if ((await startMode(bench)) === 'ipvs') await shopIncident.play?.(bench)
  },
}

export const solution: LabSolution = {
  steps: {
    traffic: typing(predictAt('traffic', "'an-answer'", byStart('an-answer', 'nothing')), traffic),
    inventory: answer('inventory', 'stock', byStart('stock', 'orders, stock')),
    mend: typing(predictAt('mend', 'silence', byStart('silence', 'refused')), mend),
    second,
    handover: typing(predictAt('handover', 'refused', 'refused'), handover),
    canary: typing(
      predictAt('canary', 'everything', byStart('everything', 'next-to-nothing')),
      canary,
      answer('canary', DIFFERENCES, kindOnCanary),
    ),
    back: typing(
      predictAt('back', 'not-at-all', byStart('not-at-all', 'until-the-new-one-writes')),
      back,
    ),
    forward: typing(predictAt('forward', 'by-ipvs', byStart('by-ipvs', 'by-conntrack')), forward),
    first,
    source: answer('source', SOURCE, sourceNow),
    ended: typing(
      predictAt(
        'ended',
        "'opened-before-by-a-pod, opened-since-by-the-node'",
        'opened-before-by-a-pod, opened-since-by-the-node',
      ),
      ended,
    ),
    clean,
    lossless: { commands: [] },
    cleanup: {
      ...typing(predictAt('cleanup', 'sets-of-ipv6', 'sets-of-ipv6'), cleanup),
      cleanup: flush,
    },
    incident,
  },

  async leave(bench) {
    await removeSecond(bench)
    await Promise.all([
      endOutside(bench),
      ...['services', 'clients-ipvs', 'traffic'].map((name) =>
        bench.remove(`${MANIFESTS}/${name}.yaml`),
      ),
      change(bench).then(({ to }) =>
        to === 'nftables'
          ? bench.onEveryNode('nft delete table ip handover 2>/dev/null || true')
          : undefined,
      ),
    ])
  },

  async reset(bench) {
    await solution.leave?.(bench)
    await Promise.all([bench.deleteLabelled('app=web'), bench.delete('ConfigMap', notesName(LAB))])
    await bench.startIn(await startMode(bench))
  },
}
