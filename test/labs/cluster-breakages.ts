// What somebody may do to the cluster's objects behind the lab's back, and the step that must say so.

import type { LabBench } from '../../course/lab-bench.ts'

export interface ClusterBreakage {
  what: string
  step: string
  break(bench: LabBench): Promise<unknown>
  repair(bench: LabBench): Promise<unknown>
}

const kubeProxy = { namespace: 'kube-system', name: 'kube-proxy' }
const web = { namespace: 'default', name: 'web' }

/** Changes the text of kube-proxy's configuration and restarts nothing. */
async function editConfig({ client: { core, mergePatch } }: LabBench, edit: (text: string) => string): Promise<void> {
  const { data } = await core.readNamespacedConfigMap(kubeProxy)
  const before = data?.['config.conf'] ?? ''
  const after = edit(before)
  if (after === before) throw new Error('the edit of the configuration changed nothing')
  await core.patchNamespacedConfigMap({ ...kubeProxy, body: { data: { 'config.conf': after } } }, mergePatch)
}

async function keepAgentsTo({ client: { apps, mergePatch } }: LabBench, nodeSelector: object): Promise<void> {
  const body = { spec: { template: { spec: { nodeSelector } } } }
  await apps.patchNamespacedDaemonSet({ ...kubeProxy, body }, mergePatch)
}

async function scaleWeb({ client: { apps, mergePatch } }: LabBench, replicas: number): Promise<void> {
  await apps.patchNamespacedDeploymentScale({ ...web, body: { spec: { replicas } } }, mergePatch)
}

export const clusterBreakages: ClusterBreakage[] = [
  {
    what: 'the mode is changed in the ConfigMap, and no agent restarted',
    step: 'ipvs',
    break: (bench) => editConfig(bench, (text) => text.replace(/^mode: .*$/m, 'mode: iptables')),
    repair: (bench) => editConfig(bench, (text) => text.replace(/^mode: .*$/m, 'mode: ipvs')),
  },
  {
    what: 'another scheduler is configured, and no agent restarted',
    step: 'virtual-servers',
    break: (bench) => editConfig(bench, (text) => text.replace(/scheduler: (.*)$/m, 'scheduler: sh # $1')),
    repair: (bench) => editConfig(bench, (text) => text.replace(/scheduler: sh # (.*)$/m, 'scheduler: $1')),
  },
  {
    what: 'the configuration is no longer readable',
    step: 'ipvs',
    break: (bench) => editConfig(bench, (text) => text.replace(/^mode: .*$/m, 'mode: ipvz')),
    repair: (bench) => editConfig(bench, (text) => text.replace(/^mode: .*$/m, 'mode: ipvs')),
  },
  {
    what: 'web has one replica',
    step: 'web',
    break: (bench) => scaleWeb(bench, 1),
    repair: (bench) => scaleWeb(bench, 2),
  },
  {
    what: 'the client Pod is gone',
    step: 'pod-to-service',
    break: (bench) => bench.delete('Pod', 'client'),
    repair: (bench) => bench.apply('labs/02-ipvs/manifests/client.yaml'),
  },
  {
    what: 'every kube-proxy is stopped',
    step: 'ipvs',
    break: (bench) => keepAgentsTo(bench, { 'no-such-label': 'true' }),
    repair: (bench) => keepAgentsTo(bench, { 'no-such-label': null }),
  },
]
