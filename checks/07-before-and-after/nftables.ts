import type { Where } from '../../dataplane/compare.ts'
import { newestBefore } from '../../dataplane/kube-proxy/versions.ts'
import { KUBE_PROXY_TABLE } from '../../dataplane/nft-table.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { featuresOn } from '../../grading/evaluate.ts'
import { expectMode, expectNodes } from '../../grading/expect-node.ts'
import { webService } from '../../grading/expect-object.ts'
import { expectFound, OutOfReach, onNode } from '../../grading/failure.ts'
import type { Truth } from '../../grading/question.ts'
import { sendRequests } from '../../grading/requests.ts'
import { kubeProxyVersionOf, type NodeView, stateOf } from '../../grading/snapshot.ts'
import { clientOf, expectAllConnect, expectConnections } from './connections.ts'
import { backInIptablesMode, type ModeVisit, onceInMode } from './mode-visit.ts'

/**
 * Whether this kube-proxy has the mode without a feature gate, as every version after the modelled
 * ones has.
 */
export const hasNftables = (node: NodeView): boolean =>
  newestBefore(kubeProxyVersionOf(node)) !== undefined || featuresOn(node).nftables === 'available'

const visit: ModeVisit = {
  mode: 'nftables',
  step: 'nft-tables',
  note: 'tables-of-nftables',
  inspect: 'nft list tables',
  back: 'make iptables',
  // The kernel's features are in lab.yaml, and required by the judge.
  require({ nodes }) {
    const old = nodes.find((node) => !hasNftables(node))
    if (old)
      throw new OutOfReach(
        `kube-proxy ${old.kubeProxyVersion} does not have mode nftables, or only behind a feature gate`,
      )
  },
}

const LIST_TABLE = 'nft list table ip kube-proxy'
const CONNECTIONS = 12
/** A port without a Service (discard). */
const OTHER_PORT = 9

const isElement = (where: Where) => 'nft' in where && /^(map|set) /.test(where.part)

/** Separate tables, with chains at the kernel's hooks as predicted. */
export const hasSeparateTables = onceInMode(visit, visit.note, async ({ nodes }) => {
  expectNodes(nodes)
    .where((where) => 'nft' in where && !isElement(where), LIST_TABLE)
    .equalPrediction(
      'nftables',
      'the tables kube-proxy of families ip and ip6, with the chains that no Service owns',
    )
  return Object.fromEntries(nodes.map((node) => [node.name, stateOf(node).nftables?.length ?? 0]))
})

/** Every map and set with its elements as predicted; real connections take the same path. */
export const mapsLeadToPods = onceInMode(visit, 'maps-of-nftables', async (context) => {
  const { live, nodes, snapshot } = context
  expectNodes(nodes)
    .where(isElement, LIST_TABLE)
    .equalPrediction(
      'nftables',
      'an element for every Service port, and the ready Pods behind it, with equal probability',
    )
  if (!live) return { at: 'a capture' }
  const service = webService(snapshot)
  const { answered } = await expectAllConnect(context, live, service, CONNECTIONS)
  const other = { address: service.address, port: OTHER_PORT, seconds: 2 }
  const [sent] = await sendRequests(live, clientOf(context), [other])
  // 7 for a refused connection, 28 for a lost packet, as curl exits.
  const { code = 'no reply' } = sent?.replies[0] ?? {}
  expectConnections(context, other, {
    holds: code === 7,
    expected: `that port ${OTHER_PORT} of the ClusterIP, which has no Service, is refused immediately`,
    actual: code === 28 ? 'no answer in time' : `curl ended with ${code}`,
  })
  return { answered }
})

/** Prediction: how many tables kube-proxy has on a node. */
export async function tablesOnNode(context: CheckContext): Promise<Truth> {
  await visit.require(context)
  const { nodes } = context
  const own = nodes.map((node) => ownTables(node).length)
  return {
    accepts: [String(own.at(-1) ?? 0)],
    inspect: onNode(nodes.at(-1)?.name ?? '', 'nft list tables'),
    wrong: [
      {
        when: '1',
        because:
          'One of family ip and one of family ip6: rules exist for each address family (lab 1).',
      },
      {
        when: (answer) => Number(answer) > 2,
        because:
          'nat and filter are not tables here but types of chains. A table in nf_tables holds whatever its program puts there.',
      },
    ],
    because: 'One for each address family, with all chains, sets and maps of kube-proxy.',
  }
}

/** Question: the number of elements of the map of Services. */
export async function elementsOfMap(context: CheckContext): Promise<Truth> {
  await visit.require(context)
  expectMode(context, 'nftables', { next: 'make nftables' })
  const node = context.nodes.at(-1)
  const table = node && ownTables(node).find(({ family }) => family === 'ip')
  const elements = expectFound(table?.maps.get('service-ips')?.elements.size, {
    inspect: LIST_TABLE,
    expected: 'the map service-ips',
  })
  return {
    accepts: [String(elements)],
    inspect: onNode(node?.name ?? '', 'nft list map ip kube-proxy service-ips'),
    wrong: [
      {
        when: '1',
        because:
          'One lookup finds an element, but the map has an element for each address and port.',
      },
      {
        when: (answer) => Number(answer) > 0 && Number(answer) < elements,
        because:
          'Count ports, not Services: each address, protocol and port is an element of its own.',
      },
    ],
    because:
      'An element for each address, protocol and port of a Service, and one lookup for all of them.',
  }
}

const ownTables = (node: NodeView) =>
  (stateOf(node).nftables ?? []).filter(({ name }) => name === KUBE_PROXY_TABLE)

/** No rules, sets or virtual servers of iptables or IPVS mode exist. */
export const nothingBeside = onceInMode(visit, 'nftables-alone', async ({ nodes }) => {
  expectNodes(nodes).nothingOfOtherModes('nftables', {
    inspect: 'iptables-save | grep KUBE-',
    expected: "no chain, set or virtual server of kube-proxy's other modes",
  })
  return { nodes: nodes.length }
})

/** iptables mode, without tables of nftables mode. */
export const nothingOfNftables = backInIptablesMode(visit)
