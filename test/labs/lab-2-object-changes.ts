// Changes of the cluster's objects after lab 2 was solved, and the step that must fail.

import type { LabBench } from '../../course/lab-bench.ts'

export interface ObjectChange {
  what: string
  step: string
  break(bench: LabBench): Promise<unknown>
  repair(bench: LabBench): Promise<unknown>
}

const editMode = (bench: LabBench, mode: string) =>
  bench.editKubeProxyConfig((text) => text.replace(/^mode: .*$/m, `mode: ${mode}`))

async function selectNodesOfKubeProxy(
  { client: { apps, mergePatch } }: LabBench,
  nodeSelector: object,
): Promise<void> {
  const body = { spec: { template: { spec: { nodeSelector } } } }
  await apps.patchNamespacedDaemonSet(
    { namespace: 'kube-system', name: 'kube-proxy', body },
    mergePatch,
  )
}

export const objectChanges: ObjectChange[] = [
  {
    what: 'the mode is changed in the ConfigMap, and no kube-proxy restarted',
    step: 'ipvs',
    break: (bench) => editMode(bench, 'iptables'),
    repair: (bench) => editMode(bench, 'ipvs'),
  },
  {
    what: 'another scheduler is configured, and no kube-proxy restarted',
    step: 'virtual-servers',
    break: (bench) =>
      bench.editKubeProxyConfig((text) => text.replace(/scheduler: (.*)$/m, 'scheduler: sh # $1')),
    repair: (bench) =>
      bench.editKubeProxyConfig((text) => text.replace(/scheduler: sh # (.*)$/m, 'scheduler: $1')),
  },
  {
    what: 'the configuration is no longer readable',
    step: 'ipvs',
    break: (bench) => editMode(bench, 'ipvz'),
    repair: (bench) => editMode(bench, 'ipvs'),
  },
  {
    what: 'web has one replica',
    step: 'web',
    break: (bench) => bench.scale('web', 1),
    repair: (bench) => bench.scale('web', 2),
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
    break: (bench) => selectNodesOfKubeProxy(bench, { 'no-such-label': 'true' }),
    repair: (bench) => selectNodesOfKubeProxy(bench, { 'no-such-label': null }),
  },
]
