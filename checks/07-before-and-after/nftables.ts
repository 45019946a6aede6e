import type { Where } from '../../dataplane/compare.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { expectMode, expectNodes } from '../../grading/expect-node.ts'
import { holdsOnceSeen, mustHaveSeen } from '../../grading/seen-moment.ts'
import { webService } from '../../grading/web-service.ts'
import { CLIENT } from '../02-ipvs/web-requests.ts'
import { connect, mustAllBeAnswered } from './connections.ts'
import { expectConnections } from './deaf-pod.ts'
import { mustHaveNftables } from './nftables-here.ts'
import { mustHoldIptablesModeOnly } from './way-back.ts'

const NOTE = 'tables-of-nftables'
const HINT = 'make nftables'
const LOOK = 'nft list table ip kube-proxy'
const CONNECTIONS = 12
/** No Service's: discard. */
const OTHER_PORT = 9

const isElement = (where: Where) => 'nft' in where && /^(map|set) /.test(where.part)

/** nftables mode on every node: tables of its own, with chains at the kernel's hooks as predicted. */
export async function hasTablesOfItsOwn(context: CheckContext): Promise<void> {
  await mustHaveNftables(context)
  await holdsOnceSeen(context, NOTE, async () => {
    expectMode(context, 'nftables', { hint: HINT })
    expectNodes(context.nodes)
      .where((where) => 'nft' in where && !isElement(where), LOOK)
      .equalPrediction('nftables', 'the tables kube-proxy of families ip and ip6, with the chains that no Service owns')
    return Object.fromEntries(context.nodes.map(({ name, state }) => [name, state.nftables?.length ?? 0]))
  })
}

/** Every map and set as predicted, and what each element leads to; real connections go the same way. */
export async function mapsLeadToPods(context: CheckContext): Promise<void> {
  await mustHaveNftables(context)
  await holdsOnceSeen(context, 'maps-of-nftables', async () => {
    const { live, nodes, snapshot } = context
    expectMode(context, 'nftables', { hint: HINT })
    expectNodes(nodes)
      .where(isElement, LOOK)
      .equalPrediction(
        'nftables',
        'an element for every Service port, and the ready Pods behind it, each as likely as the other',
      )
    if (!live) return { at: 'a capture' }
    const service = webService(snapshot)
    const connections = await connect(live, service, CONNECTIONS)
    mustAllBeAnswered(context, service, connections, CONNECTIONS)
    const curl = `curl -s -o /dev/null --connect-timeout 2 -w '%{errormsg}' http://${service.address}:${OTHER_PORT}/`
    const { exitCode } = await live.inPod(CLIENT, curl)
    // 7 is curl's code for a connection that was refused; a lost packet ends with 28.
    expectConnections(service.address, OTHER_PORT, {
      holds: exitCode === 7,
      expected: `that port ${OTHER_PORT} of the ClusterIP, which is no Service's, is refused at once`,
      actual: exitCode === 28 ? 'no answer in time' : `curl ended with ${exitCode}`,
    })
    return { answered: connections.answered }
  })
}

/** Beside the tables there is nothing of iptables or IPVS mode. */
export async function nothingBeside(context: CheckContext): Promise<void> {
  await mustHaveNftables(context)
  await holdsOnceSeen(context, 'nftables-alone', async () => {
    expectMode(context, 'nftables', { hint: HINT })
    expectNodes(context.nodes).nothingOfOtherModes('nftables', {
      look: 'iptables-save | grep KUBE-',
      expected: "no chain, set or virtual server of kube-proxy's other modes",
    })
    return { nodes: context.nodes.length }
  })
}

/** After nftables mode was seen: iptables mode again, and no table is left. */
export async function nothingOfNftables(context: CheckContext): Promise<void> {
  await mustHaveNftables(context)
  mustHaveSeen(context, {
    mode: 'nftables',
    note: NOTE,
    look: 'nft list tables',
    hint: `${HINT}, then make check-7 STEP=nft-tables.`,
  })
  expectMode(context, 'iptables', { hint: 'make iptables, then make flush-nat' })
  mustHoldIptablesModeOnly(context)
}
