// Where does a packet end on a node, and which rules take it there? See `--help`.

import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { CAPTURE_FILES, readCapturedNode } from '../dataplane/capture.ts'
import { familyOf } from '../dataplane/ip-address.ts'
import type { NodeState } from '../dataplane/node-state.ts'
import { explainTrace } from '../dataplane/trace/explain.ts'
import { type Packet, parsePacket, tracePacket, traceToJson } from '../dataplane/trace.ts'
import { main, UserError } from './main.ts'

const HELP = `Usage: node --import tsx scripts/trace.ts --capture DIR [--node NAME] --from ORIGIN --to DESTINATION [--json] [--all]

Walks a packet through what a node holds, as its kernel would.

  --capture DIR       a capture (DIR/nodes/NAME/iptables-save …) or the folder of one node's files
  --node NAME         the node; may be left out where there is only one
  --from ORIGIN       pod:10.244.1.99, external:203.0.113.9, or host for a process of the node
  --to DESTINATION    10.96.119.228:80, with /udp or /sctp for others than TCP
  --json              {hops, outcomes, verdict} instead of text
  --all               in the text, show every rule that does not match as well

Exit status: 0 when the packet was traced, wherever it ended; 2 when it could not be.
`

interface Arguments {
  capture: string
  node?: string
  from: string
  to: string
  json: boolean
  all: boolean
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
      all: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return 'help'
  const { capture, from, to } = values
  const missing = Object.entries({ capture, from, to }).flatMap(([name, value]) => (value ? [] : [`--${name}`]))
  if (!capture || !from || !to) {
    throw new UserError(`${missing.join(', ')} must be given; see: node --import tsx scripts/trace.ts --help`)
  }
  return { capture, from, to, json: values.json, all: values.all, ...(values.node ? { node: values.node } : {}) }
}

/** The state of a node as a capture holds it. Throws UserError with every fault of its files. */
function stateFromCapture(capture: string, node: string | undefined, packet: Packet): NodeState {
  const folder = nodeFolder(capture, node)
  const present = CAPTURE_FILES.filter((name) => existsSync(join(folder, name)))
  const files = new Map(present.map((name) => [name, readFileSync(join(folder, name), 'utf8')]))
  const { state, faults } = readCapturedNode(files, { family: familyOf(packet.destination) })
  if (faults.length > 0) {
    throw new UserError(`"${folder}" cannot be read:\n${faults.map(({ message }) => `  ${message}`).join('\n')}`)
  }
  return state
}

function nodeFolder(capture: string, node: string | undefined): string {
  if (!statSync(capture, { throwIfNoEntry: false })?.isDirectory()) {
    throw new UserError(`"${capture}" is no folder; make a capture with: make capture`)
  }
  const nodes = join(capture, 'nodes')
  if (!existsSync(nodes)) {
    if (existsSync(join(capture, 'iptables-save'))) return capture
    throw new UserError(
      `"${capture}" is no capture, it has neither "nodes" nor "iptables-save"; make one with: make capture`,
    )
  }
  const names = readdirSync(nodes).filter((name) => statSync(join(nodes, name)).isDirectory())
  const chosen = node ?? (names.length === 1 ? names[0] : undefined)
  if (chosen === undefined) throw new UserError(`--node must be given; "${capture}" has: ${names.join(', ') || 'none'}`)
  if (!names.includes(chosen)) {
    throw new UserError(`"${chosen}" is no node of "${capture}"; it has: ${names.join(', ') || 'none'}`)
  }
  return join(nodes, chosen)
}

await main(async () => {
  const asked = readArguments(process.argv.slice(2))
  if (asked === 'help') {
    process.stdout.write(HELP)
    return
  }
  const packet = parsePacket(asked.from, asked.to)
  const trace = tracePacket(stateFromCapture(asked.capture, asked.node, packet), packet)
  process.stdout.write(
    asked.json ? `${JSON.stringify(traceToJson(trace), null, 2)}\n` : explainTrace(trace, { all: asked.all }),
  )
})
