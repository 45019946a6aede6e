import { kubeProxy, kubeProxyPods } from '../../../cluster/kube-proxy/kube-proxy-pods.ts'
import type { Incident } from '../../../course/incident/incident.ts'
import type { IncidentEnvironment } from '../../../course/incident/shop.ts'
import type { LabBench } from '../../../course/lab-bench.ts'
import { flush, typing } from '../../../course/typed-commands.ts'
import { programText } from '../../../host/program-text.ts'
import { waitFor } from '../../../host/wait.ts'

const KEY = 'kubernetes.io/os'
const labelNode = (bench: LabBench, node: string, value: string) =>
  bench.patch('Node', node, { metadata: { labels: { [KEY]: value } } })

export const evictedAgent: Incident = {
  id: 'evicted-agent',
  cause: 'a node has no kube-proxy, so its rules are not updated',
  mode: 'iptables',
  sign: 'Without a kube-proxy on a node, `kubectl -n kube-system get pods -o wide -l k8s-app=kube-proxy` would list one Pod fewer than there are nodes.',
  report: () =>
    'The shop was deployed again, and since then the customer gets no answer. A colleague whose Pods run on another node has no problem.',
  hints: [
    "To which addresses do the rules of the customer's node send a request? Do these Pods exist?",
    'The rules are out of date. Which program should have updated them, and does it run on this node?',
    'The DaemonSet kube-proxy wants fewer Pods than there are nodes. Compare its nodeSelector with the labels of the nodes.',
  ],
  async break(bench, { node }) {
    const { namespace, selector } = kubeProxy
    await labelNode(bench, node, 'linux-rt')
    await waitFor(`kube-proxy to leave ${node}`, 60_000, async () => {
      const { items } = await bench.client.core.listNamespacedPod({
        namespace,
        labelSelector: selector,
      })
      return items.every(({ spec }) => spec?.nodeName !== node)
    })
    await bench.restart('shop')
  },
  symptom: (context) => context.customerOfShop(4),
  causeLeft({ snapshot, environment }) {
    const runs = kubeProxyPods(snapshot.items).some(
      ({ spec }) => spec?.nodeName === environment.node,
    )
    return runs ? undefined : `no kube-proxy runs on ${environment.node}`
  },
  fix: ({ node }) => ({
    commands: [`kubectl label node ${node} ${KEY}=linux --overwrite`],
    play: (bench) => labelNode(bench, node, 'linux'),
  }),
  revert: (bench, { node }) => labelNode(bench, node, 'linux'),
  debrief: `When kube-proxy stops, nothing fails at first: its rules are in the kernel and keep working. But they become out of date. Each
Pod that is replaced is an endpoint that this node does not know, and one that it still sends to. Compare the number of Pods
of the DaemonSet with the number of nodes before you look at any rule.`,
}

const LABEL = 'service.kubernetes.io/service-proxy-name'
const label = (bench: LabBench, value: string | null) =>
  bench.patch('Service', 'shop', { metadata: { labels: { [LABEL]: value as string } } })
export const foreignProxy: Incident = {
  id: 'foreign-proxy',
  cause: 'a label of the Service assigns it to a proxy other than kube-proxy',
  mode: 'iptables',
  stops: 'untranslated',
  sign: 'If the Service belonged to another proxy, no node would have a rule for its address, and its labels would name that proxy.',
  report: () =>
    'No client in the cluster gets an answer from the shop, not even a refusal. It has its address, its Pods, its endpoints; a test with a mesh was cancelled last night.',
  hints: [
    'Look for the address of the Service in the rules of a node. Which rules match it?',
    'kube-proxy ignores the Service, on all nodes, and no log contains an error. So it is configured that way.',
    'Which labels of a Service does kube-proxy evaluate? `kubectl get service shop --show-labels`.',
  ],
  break: (bench) => label(bench, 'mesh'),
  symptom: (context) => context.customerOfShop(),
  causeLeft(context) {
    const value = context.service('shop')?.labels[LABEL]
    return value === undefined ? undefined : `the Service shop has the label ${LABEL}=${value}`
  },
  fix: () => ({
    commands: [`kubectl label service shop ${LABEL}-`],
    play: (bench) => label(bench, null),
  }),
  debrief: `kube-proxy ignores a Service with the label service.kubernetes.io/service-proxy-name, whatever its value: no rule, no set, no
virtual server, and no error message. No machine has its ClusterIP, so packets for it leave by the default route and are lost.
That is why there was no refusal.`,
}

const FILE = '/etc/modprobe.d/minimal-kernel.conf'
const FORBIDDEN = ['ip_vs', 'ip_vs_rr', 'ip_vs_wrr', 'ip_vs_sh']
const forbid = `printf 'install %s /bin/false\\n' ${FORBIDDEN.join(' ')} >${FILE}; ipvsadm -C 2>/dev/null; true`
/**
 * Unloads modules that depend on ip_vs first. The kernel itself calls modprobe when IPVS is used;
 * this is disabled.
 */
const unload = programText('labs/08-incidents/incidents/unload-ipvs.sh')

const withMode = (name: string) => (text: string) => text.replace(/^mode:.*$/m, `mode: ${name}`)

/** Restores the kernel's modules, so that later requests for a scheduler succeed. */
async function allow(bench: LabBench, environment: IncidentEnvironment): Promise<void> {
  const [helper, ...modules] = (environment.facts.kernel ?? '').split(' ')
  const restore = helper ? `echo ${helper} >/proc/sys/kernel/modprobe` : 'true'
  await bench.onEveryNode(
    `rm -f ${FILE}; ${restore}; modprobe -aq ip_vs ${modules.join(' ')} || true`,
  )
}

export const missingModule: Incident = {
  id: 'missing-module',
  cause: "kube-proxy can't load a kernel module that its mode needs, and exits whenever it starts",
  mode: 'ipvs',
  from: 'iptables',
  needs: ['ipvs', 'embedded'],
  sign: 'Without the module kube-proxy would exit whenever it starts, and its log would name the module: `make kube-proxy-logs`.',
  report: ({ node }) =>
    `We are moving kube-proxy to IPVS, node by node, and began with ${node}. Since then Pods that are deployed later can't be reached from there. All nodes were started from a new, smaller image last week.`,
  hints: [
    'Which mode does the kube-proxy of that node report? Does it answer at all?',
    'It exits as soon as it starts, and the previous rules stay. Read the end of its log: `make kube-proxy-logs`.',
    'Try `modprobe -v ip_vs` on the node, and look for what /etc/modprobe.d tells modprobe, on every node. When the modules can be loaded, `make ipvs` switches all nodes.',
  ],
  async break(bench, { node, nodes, facts }) {
    await bench.onEveryNode(forbid)
    facts.kernel = (await bench.onNode(nodes[0] ?? node, unload)).trim()
    await bench.editKubeProxyConfig(withMode('ipvs'))
    await bench.replaceKubeProxyPod(node, 'in trouble')
    await bench.restart('shop')
  },
  symptom: (context) => context.customerOfShop(4),
  async causeLeft({ live, environment }) {
    const outputs = await Promise.all(
      environment.nodes.map(async (node) => ({
        node,
        ...(await live.onNode(node, 'modprobe --showconfig')),
      })),
    )
    const forbidden = outputs.find(({ stdout }) => /^install ip_vs\S* .*false/m.test(stdout))
    return forbidden && `the modprobe configuration of ${forbidden.node} forbids ip_vs`
  },
  fix: (environment) =>
    typing(
      {
        commands: environment.nodes.map((node) => `make exec NODE=${node} CMD='rm ${FILE}'`),
        play: (bench) => allow(bench, environment),
      },
      { commands: ['make ipvs'], play: (bench) => bench.mode('ipvs', { force: true }) },
      flush,
    ),
  revert: allow,
  debrief: `IPVS mode needs ip_vs, a module for the scheduler, and ip_set. Up to 1.25 kube-proxy fell back to iptables mode if one was
missing; since 1.26 it exits, and Kubernetes starts it again and again. The rules of the previous mode stay and become out of
date, which is why nothing failed until the next deployment. Going back to iptables mode would have avoided the fault, not
repaired it.`,
}
