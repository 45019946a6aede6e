// Lab 10: packets that conntrack takes for no part of a connection (INVALID), with and without kube-proxy's rule that drops them.

import * as z from 'zod'
import {
  type CheckContext,
  type EvidenceCheck,
  type LiveContext,
  onceSeen,
  type Truth,
} from '../../grading/check-context.ts'
import { configOf, featuresOn } from '../../grading/evaluate.ts'
import { expectFound, expectThat, NotApplicable, onNode } from '../../grading/failure.ts'
import { evidenceKey } from '../../grading/learning-notes.ts'
import { stateOf } from '../../grading/snapshot.ts'
import { expectReady, expectShopProgrammed, shopClient, shopService } from './shop.ts'

const STEP = 'invalid'
const IS_INVALID = '--ctstate INVALID'
const LIST = "iptables -nvL KUBE-FORWARD | grep 'ctstate INVALID'"
const SEND =
  'for P in $(kubectl get pods -l app=shop -o name); do kubectl exec $P -- perl -e "$(cat labs/10-connections/out-of-window.pl)" $CLIENT 1000000; done'
const SHOW_RESETS = "kubectl exec client -- sh -c 'grep ^Tcp: /proc/net/snmp'"

/** Every node drops INVALID packets, as kube-proxy writes it, no rule before that accepts them, and one has been dropped. */
export const rulesDropInvalid = onceSeen(STEP, async (context: CheckContext) => {
  const { nodes, snapshot } = context
  if (
    nodes.some((node) => featuresOn(node).liberalConntrack) &&
    configOf(snapshot).conntrackTCPLiberal
  )
    throw new NotApplicable('kube-proxy runs with conntrack.tcpBeLiberal, and writes no such rule')
  expectReady(shopService(snapshot), 2)
  expectShopProgrammed(context)
  for (const node of nodes) {
    const rules = stateOf(node).iptables.get('filter')?.get('FORWARD')?.rules ?? []
    const accepting = rules.find(({ spec }) => spec.includes(IS_INVALID))
    expectThat(!accepting, {
      node: node.name,
      inspect: onNode(node.name, 'iptables -S FORWARD'),
      expected: 'no rule of yours about INVALID packets',
      actual: accepting?.spec ?? '',
      next: onNode(node.name, `iptables -D FORWARD ${accepting?.spec ?? ''}`),
    })
  }
  if (context.live) await expectDropped({ ...context, live: context.live })
  return {}
})

/** The nodes whose rule in KUBE-FORWARD has dropped INVALID packets since it was written. */
async function droppingNodes({ live, snapshot }: LiveContext): Promise<string[]> {
  const counted = snapshot.nodes.map(async ({ name }) => {
    const { stdout } = await live.readOnNode(name, `${LIST.replace('-nvL', '-nvxL')} || true`)
    return Number(/^ *(\d+)/.exec(stdout)?.[1] ?? 0) > 0 ? [name] : []
  })
  return (await Promise.all(counted)).flat()
}

/** The nodes whose rule has dropped an INVALID packet; fails if there is none. */
async function expectDropped(context: LiveContext): Promise<string[]> {
  const dropped = await droppingNodes(context)
  expectThat(dropped.length > 0, {
    inspect: onNode('…', LIST),
    expected: 'an INVALID packet that the rule of a node has dropped since it was written',
    actual: 'none on any node',
    hint: 'Without your own rule in FORWARD, and while the client keeps its connection:',
    next: SEND,
  })
  return dropped
}

/** How many resets the kernel of the Pod client has sent: OutRsts of /proc/net/snmp. */
async function resetsOfClient({ live, snapshot }: LiveContext): Promise<number> {
  const { client } = shopClient(snapshot)
  const { stdout } = await client.run(live, 'cat /proc/net/snmp')
  const [names, values] = stdout.split('\n').filter((line) => line.startsWith('Tcp: '))
  return Number(values?.split(' ')[names?.split(' ').indexOf('OutRsts') ?? -1] ?? 0)
}

const strayNote = z.looseObject({ dropped: z.array(z.string()), resets: z.number() })

/** Evidence: the client's kernel has answered a packet with a reset, and the rule of a node has dropped one since. */
export const strayPackets: EvidenceCheck = async (context) => {
  const dropped = await expectDropped(context)
  const resets = await resetsOfClient(context)
  expectThat(resets > 0, {
    inspect: SHOW_RESETS,
    expected: 'a reset that the kernel of the Pod client has sent (OutRsts)',
    actual: 'none',
    hint: 'The first packet has to pass: begin with the rule of this step’s section that accepts it on every node.',
  })
  return { dropped, resets }
}

const strayIn = ({ notes }: CheckContext): z.infer<typeof strayNote> =>
  expectFound(notes.read(evidenceKey(STEP), strayNote), {
    inspect: onNode('…', LIST),
    expected: 'two packets of your own outside of the window',
    next: SEND,
  })

/** Predict: what the client's kernel does with a packet that was not translated. */
export function answerToStray(context: CheckContext): Truth {
  const { resets } = strayIn(context)
  return {
    accepts: [resets > 0 ? 'answer-with-a-reset' : 'ignore-it'],
    inspect: SHOW_RESETS,
    wrong: [
      {
        when: 'take-it',
        because:
          'Its connection is with the ClusterIP. This packet comes from the address of a Pod, so it is for no connection that the client has.',
      },
      {
        when: 'ignore-it',
        because: 'TCP answers what belongs to no connection, so that the other side knows.',
      },
    ],
    because:
      'The reset reaches the Pod, for which it belongs to the connection. The Pod forgets it, and so the client’s next request is reset in turn.',
  }
}

/** Question: which node has dropped the second packet. */
export function whereItWasDropped(context: CheckContext): Truth {
  const { dropped } = strayIn(context)
  const { node } = shopClient(context.snapshot)
  return {
    accepts: dropped,
    inspect: onNode('…', LIST),
    wrong: [
      {
        when: node.name,
        because:
          'That is where the connection was translated. But the packet came from the Pod, and each node on its way has an entry of its own for the connection.',
      },
    ],
    because:
      'The node of the Pod is the first one on its way. conntrack follows the windows of TCP there, too.',
  }
}
