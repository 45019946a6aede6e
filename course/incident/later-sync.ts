import { listKubeProxyPods } from '../../cluster/kube-proxy/kube-proxy-pods.ts'
import { PATH } from '../../cluster/node-report.ts'
import { runOnNode, SAVE_WITH_BACKEND } from '../../cluster/node-script.ts'
import { DeadlineError, waitFor } from '../../host/wait.ts'
import type { LabBench } from '../lab-bench.ts'
import { INCIDENT_LABEL, SHOP_OBJECTS } from './shop.ts'

const WITNESS = 'sync-witness'
/** A kube-proxy that starts on a busy machine takes as long for its first sync. */
const FOLLOWS_MS = 30_000

/**
 * Resolves when every kube-proxy that runs has made a whole sync that began after this call: a Service without endpoints is made,
 * seen on each node, and removed from it again. In iptables mode a filter rule rejects its address, in IPVS mode kube-ipvs0 has it.
 * What a kube-proxy was about to write anyway, in a first or a repeated sync, is written by then. One that has stopped running
 * or does not follow in time is passed over: it repairs nothing either.
 */
export async function laterSync(bench: LabBench): Promise<void> {
  const { client } = bench
  const [key = '', value = ''] = INCIDENT_LABEL.split('=')
  const metadata = { name: WITNESS, labels: { [key]: value } }
  await bench.delete('Service', WITNESS)
  const { namespace } = SHOP_OBJECTS
  const { spec } = await client.core.createNamespacedService({
    namespace,
    body: { metadata, spec: { ports: [{ port: 80 }] } },
  })
  const address = spec?.clusterIP ?? ''
  let following: string[] = []
  try {
    following = await nodesThat(bench, await running(bench), { show: address })
  } finally {
    await bench.delete('Service', WITNESS)
  }
  await nodesThat(bench, following, { hide: address })
}

/** Nodes whose kube-proxy runs. */
async function running({ client }: LabBench): Promise<string[]> {
  const agents = (await listKubeProxyPods(client)).filter(({ startedAt, trouble }) => startedAt && !trouble)
  return agents.map(({ node }) => node)
}

const lookFor = `${PATH}
${SAVE_WITH_BACKEND}
{ save_with_backend iptables -t filter; ip -4 addr show; } | grep -qwF -- "$1" && echo shown || echo hidden`

/** The nodes that program (or remove) an address while their kube-proxy runs. */
async function nodesThat(
  bench: LabBench,
  nodes: readonly string[],
  { show, hide = '' }: { show?: string; hide?: string },
): Promise<string[]> {
  const done = new Set<string>()
  try {
    await waitFor('every kube-proxy to follow', FOLLOWS_MS, async () => {
      const awaited = (await running(bench)).filter((node) => nodes.includes(node) && !done.has(node))
      await Promise.all(
        awaited.map(async (node) => {
          const { stdout } = await runOnNode(bench.cluster, node, lookFor, { args: [show ?? hide] })
          if (stdout.trim() === (show === undefined ? 'hidden' : 'shown')) done.add(node)
        }),
      )
      return awaited.every((node) => done.has(node))
    })
  } catch (error) {
    if (!(error instanceof DeadlineError)) throw error
  }
  return [...done]
}
