// Traces a packet through the rules of a node. See `--help`.

import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { selectCluster } from '../cluster/select.ts'
import { resolveRoute, stateOfNode } from '../course/live-node.ts'
import { CAPTURE_FILES, readCapturedNode } from '../dataplane/capture.ts'
import { familyOf } from '../dataplane/ip-address.ts'
import type { NodeState } from '../dataplane/node-state.ts'
import { drawTrace, explainTrace } from '../dataplane/trace/draw.ts'
import { stoppingPlace } from '../dataplane/trace/stopping-place.ts'
import { type Packet, parsePacket, tracePacket, traceToJson } from '../dataplane/trace.ts'
import { main, UserError } from '../host/main.ts'
import { isFolder, readPlainFile } from '../host/plain-file.ts'
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

/** The state of a node in a capture. Throws UserError with every error in its files. */
function stateFromCapture(capture: string, node: string | undefined, packet: Packet): NodeState {
  const folder = nodeFolder(capture, node)
  const present = CAPTURE_FILES.filter((name) => existsSync(join(folder, name)))
  const files = new Map(present.map((name) => [name, readPlainFile(join(folder, name))]))
  const { state, faults } = readCapturedNode(files, { family: familyOf(packet.destination) })
  if (faults.length > 0) {
    throw new UserError(`"${folder}" cannot be read:\n${faults.map(({ message }) => `  ${message}`).join('\n')}`)
  }
  return state
}

function nodeFolder(capture: string, node: string | undefined): string {
  if (!isFolder(capture)) {
    throw new UserError(`"${capture}" is not a folder; make a capture with: make capture`)
  }
  const nodes = join(capture, 'nodes')
  if (!isFolder(nodes)) {
    if (existsSync(join(capture, 'iptables-save'))) return capture
    throw new UserError(
      `"${capture}" is not a capture, it has neither "nodes" nor "iptables-save"; make one with: make capture`,
    )
  }
  const names = readdirSync(nodes).filter((name) => isFolder(join(nodes, name)))
  const chosen = node ?? (names.length === 1 ? names[0] : undefined)
  if (chosen === undefined) throw new UserError(`--node must be given; "${capture}" has: ${names.join(', ') || 'none'}`)
  if (!names.includes(chosen)) {
    throw new UserError(`"${chosen}" is not a node of "${capture}"; it has: ${names.join(', ') || 'none'}`)
  }
  return join(nodes, chosen)
}

function fromCapture({ from, to, node }: Arguments, capture: string): { packet: Packet; state: NodeState } {
  const packet = parsePacket(from, to)
  return { packet, state: stateFromCapture(capture, node, packet) }
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
