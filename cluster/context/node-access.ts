import type { V1DaemonSet } from '@kubernetes/client-node'
import { type KubeClient, unlessCode } from '../kube-client.ts'
import { ownLabel } from './write-guard.ts'

/** The namespace of our Pods in a cluster of the user's; it contains nothing else. */
export const accessNamespace = 'kube-service-labs'
const accessName = 'node-agent'
const accessLabels = { app: accessName }

/**
 * Any image that contains nsenter works; `AGENT_IMAGE` names one that the nodes have or can fetch.
 */
export const accessImage = () => process.env.AGENT_IMAGE || 'busybox:1.37'

/** One idle privileged Pod per node, in the node's network and PID namespaces. */
function accessDaemonSet(): V1DaemonSet {
  return {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { name: accessName, namespace: accessNamespace, labels: ownLabel },
    spec: {
      selector: { matchLabels: accessLabels },
      // Pods that can't pull their image are replaced immediately when AGENT_IMAGE names another
      // one.
      updateStrategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: '100%' } },
      template: {
        metadata: { labels: accessLabels },
        spec: {
          hostNetwork: true,
          hostPID: true,
          terminationGracePeriodSeconds: 1,
          nodeSelector: { 'kubernetes.io/os': 'linux' },
          tolerations: [{ operator: 'Exists' }],
          automountServiceAccountToken: false,
          containers: [
            {
              name: 'agent',
              image: accessImage(),
              imagePullPolicy: 'IfNotPresent',
              command: ['sh', '-c', 'trap "exit 0" TERM INT; while :; do sleep 3600 & wait; done'],
              securityContext: { privileged: true },
            },
          ],
        },
      },
    },
  }
}

/**
 * Enters the namespaces of the node's first process; the network is already the node's, because the
 * Pod has hostNetwork.
 */
export const ENTER_NODE = ['nsenter', '-t', '1', '-m', '-u', '-i', '--'] as const

/**
 * Wraps a command so that it runs with the node's own files. PATH is set explicitly: a busybox
 * shell would prefer its own applets, which have fewer options, to the node's programs, and the
 * image's PATH need not match the node's. Standard input has a known length, because exec over
 * WebSockets cannot signal the end of standard input before protocol version 5.
 */
export function onNodeCommand(command: readonly string[], stdinBytes = 0): string[] {
  const path = 'PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
  if (stdinBytes === 0)
    return [...ENTER_NODE, '/bin/sh', '-c', `${path}; "$@" </dev/null`, 'sh', ...command]
  const fed = `${path}; bytes=$1; shift; head -c "$bytes" | "$@"`
  return [...ENTER_NODE, '/bin/sh', '-c', fed, 'sh', String(stdinBytes), ...command]
}

/**
 * Creates the namespace and the DaemonSet if they are missing; a DaemonSet with another image is
 * replaced.
 */
export async function installAccessPods({ core, apps }: KubeClient): Promise<void> {
  await unlessCode(
    409,
    core.createNamespace({
      body: {
        metadata: {
          name: accessNamespace,
          labels: { ...ownLabel, 'pod-security.kubernetes.io/enforce': 'privileged' },
        },
      },
    }),
  )
  const body = accessDaemonSet()
  const created = await unlessCode(
    409,
    apps.createNamespacedDaemonSet({ namespace: accessNamespace, body }),
  )
  if (!created)
    await apps.replaceNamespacedDaemonSet({ namespace: accessNamespace, name: accessName, body })
}

/** The ready node-access Pods, by node. */
export async function readyAccessPods({ core }: KubeClient): Promise<Map<string, string>> {
  const { items } = await core.listNamespacedPod({
    namespace: accessNamespace,
    labelSelector: `app=${accessName}`,
  })
  const ready = items.filter(
    ({ metadata, status }) =>
      !metadata?.deletionTimestamp &&
      status?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True'),
  )
  return new Map(ready.map(({ metadata, spec }) => [spec?.nodeName ?? '', metadata?.name ?? '']))
}

/**
 * Why an access Pod with the configured image does not run yet, as the kubelet reports it;
 * undefined if there is no problem.
 */
export async function accessPodTrouble({ core }: KubeClient): Promise<string | undefined> {
  const { items } = await core.listNamespacedPod({
    namespace: accessNamespace,
    labelSelector: `app=${accessName}`,
  })
  for (const { metadata, spec, status } of items) {
    if (metadata?.deletionTimestamp || spec?.containers[0]?.image !== accessImage()) continue
    const waiting = status?.containerStatuses?.[0]?.state?.waiting
    if (
      waiting?.reason &&
      /^(ErrImage|ImagePull|InvalidImage|CreateContainer)/.test(waiting.reason)
    )
      return `${spec?.nodeName}: ${waiting.reason}${waiting.message ? ` (${waiting.message.split('\n')[0]})` : ''}`
  }
  return undefined
}
