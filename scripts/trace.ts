// Traces a packet through the rules of a node. See `--help`.
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { readCaptureFolder } from '../cluster/capture-folder.ts'
import { selectCluster } from '../cluster/select.ts'
import { pathOn } from '../course/node-paths.ts'
import { livePacket, recordedPacket, snapshotWithRoutes } from '../course/read-node.ts'
import { drawTrace, explainTrace } from '../dataplane/trace/draw.ts'
import { stoppingPlace } from '../dataplane/trace/stopping-place.ts'
import { type Trace, tracePacket, traceToJson } from '../dataplane/trace.ts'
import type { PacketPath } from '../dataplane/view/packet-path.ts'
import { Snapshot } from '../grading/snapshot.ts'
import { main, Refusal } from '../host/main.ts'
import { requireWritable } from '../host/plain-file.ts'
import { plainJson } from '../host/plain-text.ts'
import { isOn } from '../host/switches.ts'
import { journeyFile } from '../slides/figures/journey-picture.ts'

const USAGE = `Usage: make trace FROM=ORIGIN TO=DESTINATION [NODE=NAME] [VERBOSE=1] [SVG=FILE]
       node --import tsx scripts/trace.ts [--capture DIR] [--node NAME] --from ORIGIN --to DESTINATION [--json | --verbose]
                                          [--svg FILE]

Follows a packet through the rules of a node, as its kernel would, and draws its path: the hooks that it passes, the changes made
there, and its destination.

  --capture DIR       a capture (DIR/nodes/NAME/iptables-save …) or the folder of one node's files; else the live cluster
  --node, NODE        the node; may be omitted if there is only one, or for a Pod
  --from, FROM        pod/NAME or pod:10.244.1.99, host for a process of the node, outside or external:203.0.113.9
  --to, TO            svc/NAME:80 or 10.96.119.228:80, with /udp or /sctp for others than TCP
  --svg, SVG=FILE     also writes a picture of the packet's journey: nodes, Pods, interfaces, and its header at each place
  -v, VERBOSE=1       every rule on the packet's path, with the reason why it matches or not
  --json              {hops, outcomes, verdict} instead of text

Exit status: 0 when the packet was traced, wherever it ended; 2 when it could not be.
`
const text = { type: 'string' } as const
const options = {
  capture: text,
  node: text,
  from: text,
  to: text,
  svg: text,
  json: { type: 'boolean' },
  verbose: { type: 'boolean', short: 'v' },
} as const

await main(async () => {
  const { capture, node, from, to, json, verbose, svg } = parseArgs({ options }).values
  if (svg) requireWritable(svg)
  if (!from || !to) throw missingEnds(from, to)
  const cluster = capture ? undefined : await selectCluster()
  const found = cluster
    ? await livePacket(cluster, from, to, node || undefined)
    : recordedPacket(capture ?? '', from, to, node ?? '')
  const { packet, state } = found
  if (svg) {
    const snapshot = cluster
      ? await snapshotWithRoutes(cluster)
      : new Snapshot(readCaptureFolder(capture ?? ''))
    const path = pathOn(snapshot, found.node, state, packet)
    writeFileSync(svg, svgOf(path, `${from} → ${to}`))
  }
  const trace = tracePacket(state, packet)
  const stop = trace.verdict === 'accept' ? stoppingPlace(trace, packet, state) : undefined
  const isVerbose = verbose || isOn('VERBOSE')
  const lines = describeTrace(trace, stop, isVerbose)
  process.stdout.write(`${json ? plainJson(traceToJson(trace)) : lines.join('\n')}\n`)
}, USAGE)

function missingEnds(from: string | undefined, to: string | undefined): Refusal {
  const missing = [!from && 'FROM=', !to && 'TO='].filter(Boolean).join(' and ')
  return new Refusal(
    `${missing} must be given: make trace FROM=pod/NAME TO=svc/NAME:80; FROM= may also be host, outside, or pod: or external: with an address.`,
  )
}

function svgOf(path: PacketPath, title: string): string {
  const picture = journeyFile(path, title)
  if (picture === undefined) throw new Error('The journey of this packet is not known.')
  return picture
}

/** Each rule on the packet's path, or its path as a drawing; `stop` is where it stopped. */
function describeTrace(trace: Trace, stop: string | undefined, isVerbose: boolean): string[] {
  if (isVerbose) return [...explainTrace(trace), ...(stop ? [`It ${stop}.`] : [])]
  const { isTTY, columns } = process.stdout
  const plain = !isTTY || Boolean(process.env.NO_COLOR) || process.env.TERM === 'dumb'
  return drawTrace(trace, { width: columns || 80, plain, stop })
}
