import { familyOf, parseEndpoint, parsePort, printEndpoint } from '../ip-address.ts'
import type { RuleOptions, Target } from '../rule.ts'
import type { Flow } from './flow.ts'
import { readMark, type TraceContext } from './judge-rule.ts'
import type { Hook } from './step.ts'

/** The effect of a target on a packet; `continue` means the next rule. */
interface Effect {
  flow: Flow
  verdict: 'continue' | 'accept' | 'return' | 'drop' | 'reject'
  /** What it changed in the packet, as in a step. */
  change?: string
  /** What else is to be known of it. */
  remark?: string
}

/**
 * Applies a target that is not a chain. An unknown target has no effect, which the remark reports.
 */
export function applyTarget(
  target: Target,
  flow: Flow,
  hook: Hook,
  { network }: TraceContext,
): Effect {
  const { name, options } = target
  switch (name) {
    case 'ACCEPT':
      return { flow, verdict: 'accept' }
    case 'RETURN':
      return { flow, verdict: 'return' }
    case 'DROP':
    case 'TARPIT':
      return { flow, verdict: 'drop' }
    case 'REJECT':
      return {
        flow,
        verdict: 'reject',
        remark: options.get('--reject-with')?.value[0] ?? 'icmp-port-unreachable',
      }
    case 'QUEUE':
    case 'NFQUEUE':
      return { flow, verdict: 'accept', remark: 'a program decides; taken as accepted' }
    case 'MARK':
      return marked(flow, 'mark', changeMark(flow.mark, options))
    case 'CONNMARK':
      return applyConnmark(flow, options)
    case 'NOTRACK':
      return { flow: { ...flow, tracked: false }, verdict: 'continue', remark: 'not tracked' }
    case 'CT':
      return { flow: { ...flow, tracked: !options.has('--notrack') }, verdict: 'continue' }
    case 'DNAT':
      return translate(
        flow,
        readEndpoint(options.get('--to-destination')?.value[0] ?? '', flow.destination, flow.port),
      )
    case 'REDIRECT':
      return applyRedirect(flow, options, hook, network)
    case 'MASQUERADE': {
      const source = network.addressOf(flow.outInterface ?? '', flow.source) ?? flow.source
      return translateSource(flow, source)
    }
    case 'SNAT':
      return translateSource(
        flow,
        readEndpoint(options.get('--to-source')?.value[0] ?? '', flow.source, 0).address,
      )
    default:
      if (QUIET.has(name)) return { flow, verdict: 'continue' }
      return {
        flow,
        verdict: 'continue',
        remark: `the target "${name}" is not modelled and ignored`,
      }
  }
}

const QUIET = new Set(['LOG', 'NFLOG', 'TRACE', 'TCPMSS', 'CHECKSUM'])

/** Source: xt_MARK of the kernel; all forms clear the bits of the mask and then XOR. */
function changeMark(mark: number, options: RuleOptions): number {
  for (const [option, { value }] of options) {
    const [bits, mask] = readMark(value[0] ?? '')
    if (option === '--set-xmark') return ((mark & ~mask) ^ bits) >>> 0
    if (option === '--set-mark') return ((mark & ~mask) | bits) >>> 0
    if (option === '--and-mark') return (mark & bits) >>> 0
    if (option === '--or-mark') return (mark | bits) >>> 0
    if (option === '--xor-mark') return (mark ^ bits) >>> 0
  }
  return mark
}

function applyConnmark(flow: Flow, options: RuleOptions): Effect {
  const mask = (option: string) => readMark(options.get(option)?.value[0] ?? '0xffffffff')[0]
  const connectionBits = mask('--ctmask')
  const packetBits = mask('--nfmask')
  if (options.has('--save-mark'))
    return marked(
      flow,
      'connmark',
      ((flow.connmark & ~connectionBits) ^ (flow.mark & packetBits)) >>> 0,
    )
  if (options.has('--restore-mark'))
    return marked(
      flow,
      'mark',
      ((flow.mark & ~packetBits) ^ (flow.connmark & connectionBits)) >>> 0,
    )
  return marked(flow, 'connmark', changeMark(flow.connmark, options))
}

/** Sets the mark of the packet or of its connection. */
export const marked = (flow: Flow, kind: 'mark' | 'connmark', mark: number) => ({
  flow: { ...flow, [kind]: mark },
  verdict: 'continue' as const,
  change: `${kind === 'mark' ? 'mark' : 'connection mark'} becomes 0x${mark.toString(16)}`,
})

function translate(flow: Flow, { address, port }: { address: string; port: number }): Effect {
  const changed = { ...flow, destination: address, port, translated: true }
  return { flow: changed, verdict: 'accept', change: `to ${printEndpoint(address, port)}` }
}

/** To the interface that the packet came in by; from a process of the node to loopback. */
function applyRedirect(
  flow: Flow,
  options: RuleOptions,
  hook: Hook,
  network: TraceContext['network'],
): Effect {
  const port = parsePort(options.get('--to-ports')?.value[0]?.split('-')[0] ?? '') ?? flow.port
  const loopback = flow.destination.includes(':') ? '::1' : '127.0.0.1'
  const address =
    hook === 'OUTPUT' ? loopback : network.addressOf(flow.inInterface ?? '', flow.destination)
  return translate(flow, { address: address ?? flow.destination, port })
}

/**
 * `10.0.0.1:80`, `10.0.0.1`, `:80`; of a range the first, because the kernel's choice is not
 * predictable.
 */
function readEndpoint(
  to: string,
  address: string,
  port: number,
): { address: string; port: number } {
  if (familyOf(to)) return { address: to, port }
  const match = /^\[?([0-9a-f.:]*?)(?:-[0-9a-f.:]+)?\]?(?::(\d+)(?:-\d+)?)?$/i.exec(to)
  return (
    parseEndpoint(to) ?? {
      address: match?.[1] || address,
      port: parsePort(match?.[2] ?? '') ?? port,
    }
  )
}

function translateSource(flow: Flow, source: string): Effect {
  return {
    flow: { ...flow, source, sourceTranslated: true },
    verdict: 'accept',
    change: `source becomes ${source}`,
  }
}
