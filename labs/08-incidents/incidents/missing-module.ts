import type { ClusterActions } from '../../../course/incident/cluster-actions.ts'
import type { Incident } from '../../../course/incident/incident.ts'

const FILE = '/etc/modprobe.d/minimal-kernel.conf'
const FORBIDDEN = ['ip_vs', 'ip_vs_rr', 'ip_vs_wrr', 'ip_vs_sh']
const forbid = `printf 'install %s /bin/false\\n' ${FORBIDDEN.join(' ')} >${FILE}; ipvsadm -C 2>/dev/null; true`
/**
 * Those that depend on ip_vs go first. A kernel that is asked for IPVS calls modprobe by itself, outside of every node; it is
 * told not to.
 */
const unload = `
modules=$(ls /sys/module | grep -E '^(ip_vs_.*|xt_ipvs)$')
echo $(cat /proc/sys/kernel/modprobe) $modules
echo >/proc/sys/kernel/modprobe
for module in $modules ip_vs; do rmmod $module 2>/dev/null; done
[ ! -d /sys/module/ip_vs ]`

const mode = (name: string) => (text: string) => text.replace(/^mode:.*$/m, `mode: ${name}`)

/** As the kernel was before: whoever asks next for a scheduler must find it. */
async function allow(actions: ClusterActions): Promise<void> {
  const [helper, ...modules] = (actions.scene.facts.kernel ?? '').split(' ')
  const restore = helper ? `echo ${helper} >/proc/sys/kernel/modprobe` : 'true'
  await actions.onEveryNode(`rm -f ${FILE}; ${restore}; modprobe -aq ip_vs ${modules.join(' ')} || true`)
}

export const missingModule: Incident = {
  id: 'missing-module',
  cause: "kube-proxy can't load a kernel module that its mode needs, and exits whenever it starts",
  mode: 'ipvs',
  from: 'iptables',
  needs: ['ipvs', 'embedded'],
  report: ({ node }) =>
    `We are moving kube-proxy to IPVS, node by node, and began with ${node}. Since then Pods that are deployed later can't be reached from there. All nodes were started from a new, smaller image last week.`,
  hints: [
    'Which mode does the kube-proxy of that node report? Does it answer at all?',
    'It exits as soon as it starts, and the previous rules stay. Read the end of its log: `make kube-proxy-logs`.',
    'Try `modprobe -v ip_vs` on the node, and look for what /etc/modprobe.d tells modprobe, on every node. When the modules can be loaded, `make ipvs` switches all nodes.',
  ],
  async break(actions) {
    const { node, nodes, facts } = actions.scene
    await actions.onEveryNode(forbid)
    facts.kernel = (await actions.onNode(nodes[0] ?? node, unload)).trim()
    await actions.editConfig(mode('ipvs'))
    await actions.replaceKubeProxyPod(node, 'in trouble')
    await actions.patchDeployment('shop', {
      spec: { template: { metadata: { annotations: { release: new Date().toISOString() } } } },
    })
    await actions.shopReady()
  },
  symptom: (look) => look.customerOfShop(4),
  async causeLeft({ live, scene }) {
    const told = await Promise.all(
      scene.nodes.map(async (node) => ({ node, ...(await live.onNode(node, 'modprobe --showconfig')) })),
    )
    const forbidden = told.find(({ stdout }) => /^install ip_vs\S* .*false/m.test(stdout))
    return forbidden && `modprobe on ${forbidden.node} is told not to load ip_vs`
  },
  wrongFixes: [
    {
      what: 'kube-proxy is restarted',
      play: (actions: ClusterActions) => actions.replaceKubeProxyPod(actions.scene.node, 'in trouble'),
    },
    {
      what: 'all nodes are switched back to iptables mode',
      play: (actions: ClusterActions) => actions.bench.mode('iptables'),
    },
  ],
  fix: {
    commands: ({ nodes }) => [
      ...nodes.map((node) => `make exec NODE=${node} CMD='rm ${FILE}'`),
      'make ipvs',
      'make flush-nat',
    ],
    async play(actions) {
      await allow(actions)
      await actions.bench.mode('ipvs', { force: true })
      await actions.bench.flush()
    },
  },
  heal: allow,
  debrief: `IPVS mode needs ip_vs, a module for the scheduler, and ip_set. Up to 1.25 kube-proxy fell back to iptables mode if one was
missing; since 1.26 it exits, and Kubernetes starts it again and again. The rules of the previous mode stay and become out of
date, which is why nothing failed until the next deployment. Going back to iptables mode would have avoided the fault, not
repaired it.`,
}
