// The second kube-proxy as `kubectl` makes it in the text of lab 9: its objects, the label of the
// nodes, and the way back to one.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { unlessCode } from '../../cluster/kube-client.ts'
import {
  kubeProxy,
  listKubeProxyPods,
  readConfigConf,
  readDaemonSet,
  writeConfigConf,
} from '../../cluster/kube-proxy/kube-proxy-pods.ts'
import type { LabBench } from '../../course/lab-bench.ts'
import { writeMode } from '../../dataplane/kube-proxy/config-conf.ts'
import { projectRoot } from '../../host/layout.ts'
import { waitFor } from '../../host/wait.ts'

const { namespace, name: FIRST } = kubeProxy
const NEXT = 'kube-proxy-next'
const place = { namespace, name: NEXT }
const ROLLOUT_MS = 90_000

/** `kubectl -n kube-system rollout status daemonset/NAME` */
async function daemonSetRolledOut({ client: { apps } }: LabBench, name: string): Promise<void> {
  await waitFor(`every Pod of ${name}`, ROLLOUT_MS, async () => {
    const { metadata, status } = await apps.readNamespacedDaemonSet({ namespace, name })
    const {
      desiredNumberScheduled = 0,
      updatedNumberScheduled = 0,
      numberAvailable = 0,
    } = status ?? {}
    return (
      (status?.observedGeneration ?? 0) >= (metadata?.generation ?? 0) &&
      Math.min(updatedNumberScheduled, numberAvailable) >= desiredNumberScheduled
    )
  })
}

/**
 * Waits until the kube-proxy in service on a node is that of one of the two DaemonSets, and runs.
 */
async function runsOn({ client }: LabBench, node: string, daemonSet: string): Promise<void> {
  await waitFor(`a Pod of ${daemonSet} on ${node}`, ROLLOUT_MS, async () => {
    const pods = (await listKubeProxyPods(client)).filter((pod) => pod.node === node)
    const isNext = (pod: string) => pod.startsWith(`${NEXT}-`)
    return (
      pods.length === 1 &&
      pods.every(({ pod, startedAt }) => startedAt && isNext(pod) === (daemonSet === NEXT))
    )
  })
}

/** Creates the second DaemonSet and its ConfigMap, and keeps the first one off labelled nodes. */
export async function prepareSecond(bench: LabBench, mode: string): Promise<void> {
  const { core, apps, strategicPatch } = bench.client
  const [{ text }, { spec }] = await Promise.all([
    readConfigConf(bench.client),
    readDaemonSet(bench.client),
  ])
  const map = await core.readNamespacedConfigMap({ namespace, name: FIRST })
  const data = { ...map.data, 'config.conf': writeMode(text, { mode }) }
  if (!spec?.template.spec) throw new Error('the DaemonSet kube-proxy has no template')
  const { template, selector, ...others } = spec
  const next = { next: 'true' }
  const { volumes = [], nodeSelector, affinity: _first, ...podSpec } = template.spec ?? {}
  const body = {
    metadata: place,
    spec: {
      ...others,
      selector: { ...selector, matchLabels: { ...selector.matchLabels, ...next } },
      template: {
        metadata: { ...template.metadata, labels: { ...template.metadata?.labels, ...next } },
        spec: {
          ...podSpec,
          containers: template.spec?.containers ?? [],
          nodeSelector: { ...nodeSelector, 'kube-proxy': 'next' },
          affinity: {},
          volumes: volumes.map((volume) =>
            volume.configMap
              ? { ...volume, configMap: { ...volume.configMap, name: NEXT } }
              : volume,
          ),
        },
      },
    },
  }
  await unlessCode(
    409,
    core.createNamespacedConfigMap({ namespace, body: { metadata: place, data } }),
  )
  await unlessCode(409, apps.createNamespacedDaemonSet({ namespace, body }))
  const elsewhere: object = JSON.parse(
    readFileSync(join(projectRoot, 'labs/09-leaving-ipvs/manifests/elsewhere.json'), 'utf8'),
  )
  await apps.patchNamespacedDaemonSet({ namespace, name: FIRST, body: elsewhere }, strategicPatch)
  await daemonSetRolledOut(bench, FIRST)
}

/** `kubectl label node NAME kube-proxy=next`, and waits for the second kube-proxy there. */
export async function moveToSecond(bench: LabBench, node: string): Promise<void> {
  await bench.patch('Node', node, { metadata: { labels: { 'kube-proxy': 'next' } } })
  await runsOn(bench, node, NEXT)
}

/** `kubectl label node NAME kube-proxy-`, and waits for the first kube-proxy there. */
export async function moveToFirst(bench: LabBench, node: string): Promise<void> {
  await bench.patch('Node', node, { metadata: { labels: { 'kube-proxy': null } } })
  await runsOn(bench, node, FIRST)
}

/** Gives the first kube-proxy the new mode and all nodes, and removes the second. */
export async function returnToFirst(bench: LabBench, mode: string): Promise<void> {
  const { text, resourceVersion } = await readConfigConf(bench.client)
  await writeConfigConf(bench.client, writeMode(text, { mode }), resourceVersion)
  for (const node of await bench.cluster.nodes()) await moveToFirst(bench, node)
  await removeSecond(bench)
}

/**
 * Removes the second kube-proxy, the labels and the affinity of the first one, which then runs on
 * every node.
 */
export async function removeSecond(bench: LabBench): Promise<void> {
  const { core, apps, strategicPatch } = bench.client
  const { items } = await core.listNode()
  for (const { metadata } of items)
    if (metadata?.labels?.['kube-proxy'] !== undefined)
      await bench.patch('Node', metadata.name ?? '', {
        metadata: { labels: { 'kube-proxy': null } },
      })
  const first = await readDaemonSet(bench.client)
  await Promise.all([
    unlessCode(404, apps.deleteNamespacedDaemonSet(place)),
    unlessCode(404, core.deleteNamespacedConfigMap(place)),
  ])
  if (first.spec?.template.spec?.affinity?.nodeAffinity === undefined) return
  const body = { spec: { template: { spec: { affinity: null } } } }
  await apps.patchNamespacedDaemonSet({ namespace, name: FIRST, body }, strategicPatch)
  await daemonSetRolledOut(bench, FIRST)
}
