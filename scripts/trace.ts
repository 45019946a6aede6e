// Traces a packet through the rules of a node. See `--help`.

import { parseArgs } from 'node:util'
import { selectCluster } from '../cluster/select.ts'
import { resolveRoute, stateOfNode } from '../course/live-node.ts'
import { recordedNode } from '../course/recorded-node.ts'
import { familyOf } from '../dataplane/ip-address.ts'
import type { NodeState } from '../dataplane/node-state.ts'
import { drawTrace, explainTrace } from '../dataplane/trace/draw.ts'
import { stoppingPlace } from '../dataplane/trace/stopping-place.ts'
import { type Packet, parsePacket, tracePacket, traceToJson } from '../dataplane/trace.ts'
import { main, UserError } from '../host/main.ts'
import { plainJson } from '../host/plain-text.ts'

const HELP = `Usage: make trace FROM=ORIGIN TO=DESTINATION [NODE=NAME] [VERBOSE=1]
       node --import tsx scripts/trace.ts [--capture DIR] [--node NAME] --from ORIGIN --to DESTINATION [--json | --verbose]

Follows a packet through the rules of a node, as its kernel would, and draws its path: the hooks that it passes, the changes made
there, and its destination.

  --capture DIR       a capture (DIR/nodes/NAME/iptables-save …) or the folder of one node's files; else the live cluster
  --node, NODE        the node; may be omitted if there is only one, or for a Pod
  --from, FROM        pod/NAME or pod:10.244.1.99, host for a process of the node, outside or external:203.0.113.9
  --to, TO            svc/NAME:80 or 10.96.119.228:80, with /udp or /sctp for others than TCP
  -v, VERBOSE=1       every rule on the packet's path, with the reason why it matches or not
  --json              {hops, outcomes, verdict} instead of text

Exit status: 0 when the packet was traced, wherever it ended; 2 when it could not be.
`

interface Arguments {
  capture?: string
  node?: string
  from: string
  to: string
  json: boolean
  verbose: boolean
}

function readArguments(argv: string[]): Arguments | 'help' {
  const { values } = parseArgs({
    args: argv,
    options: {
      capture: { type: 'string' },
      node: { type: 'string' },
      from: { type: 'string' },
      to: { type: 'string' },
      json: { type: 'boolean', default: false },
      verbose: { type: 'boolean', short: 'v', default: !['', '0', undefined].includes(process.env.VERBOSE) },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return 'help'
  const { capture, from, to } = values
  if (!from || !to) {
    const missing = Object.entries({ FROM: from, TO: to }).flatMap(([name, value]) => (value ? [] : [`${name}=`]))
    throw new UserError(
      `${missing.join(' and ')} must be given: make trace FROM=pod/NAME TO=svc/NAME:80; FROM= may also be host, outside, or pod: or external: with an address.`,
    )
  }
  return {
    from,
    to,
    json: values.json,
    verbose: values.verbose,
    ...(capture && { capture }),
    ...(values.node && { node: values.node }),
  }
}

function fromCapture({ from, to, node }: Arguments, capture: string): { packet: Packet; state: NodeState } {
  const packet = parsePacket(from, to)
  return { packet, state: recordedNode(capture, node, familyOf(packet.destination)) }
}

async function fromCluster({ from, to, node }: Arguments): Promise<{ packet: Packet; state: NodeState }> {
  const cluster = await selectCluster()
  const route = await resolveRoute(cluster, from, to, node)
  const packet = parsePacket(route.from, route.to)
  return { packet, state: await stateOfNode(cluster, route.node, packet.destination) }
}

await main(async () => {
  const given = readArguments(process.argv.slice(2))
  if (given === 'help') {
    process.stdout.write(HELP)
    return
  }
  const { packet, state } = given.capture ? fromCapture(given, given.capture) : await fromCluster(given)
  const trace = tracePacket(state, packet)
  if (given.json) {
    process.stdout.write(`${plainJson(traceToJson(trace))}\n`)
    return
  }
  const stop = trace.verdict === 'accept' ? stoppingPlace(trace, packet, state) : undefined
  const { isTTY, columns } = process.stdout
  const plain = !isTTY || Boolean(process.env.NO_COLOR) || process.env.TERM === 'dumb'
  const lines = given.verbose
    ? [...explainTrace(trace), ...(stop ? [`It ${stop}.`] : [])]
    : drawTrace(trace, { width: columns || 80, plain, stop })
  process.stdout.write(`${lines.join('\n')}\n`)
})
