import { parseIpAddr } from './ip-addr.ts'
import type { Family } from './ip-address.ts'
import { parseIpRoute } from './ip-route.ts'
import { parseIpsetSave } from './ipset-save.ts'
import { parseIptablesSave } from './iptables-save.ts'
import { parseIpvsadmSave } from './ipvsadm-save.ts'
import { parseNftList } from './nft-list.ts'
import type { NodeState } from './node-state.ts'
import { ParseError } from './program-output.ts'

/**
 * A part of a capture's file that could not be read. `line` is absent if the file itself is
 * missing.
 */
export interface CaptureFault {
  file: string
  line?: number
  message: string
}

/**
 * A node read from its files. If there are faults, the state contains the content of the other
 * files.
 */
export interface CapturedNode {
  state: NodeState
  faults: CaptureFault[]
}

/**
 * The files of one node's capture; iptables-save and ip-addr.json are required; a node without IPVS
 * has no others.
 */
export const CAPTURE_FILES = [
  'iptables-save',
  'ip6tables-save',
  'ipset-save',
  'ipvsadm-save',
  'ip-addr.json',
  'nft-ip.json',
  'nft-ip6.json',
  'nft-others.json',
  'ip-route',
] as const

type CaptureFile = (typeof CAPTURE_FILES)[number]

const REQUIRED: ReadonlySet<CaptureFile> = new Set<CaptureFile>([
  'iptables-save',
  'ip6tables-save',
  'ip-addr.json',
])

/**
 * Reads one node's files (name → text) into its state, with every fault. The rules are those of one
 * IP family (`ipv4` by default, with those of IPv6 beside them if they were recorded); `ip-route`
 * contains IPv4 routes only.
 */
export function readCapturedNode(
  files: ReadonlyMap<string, string>,
  options: { family?: Family } = {},
): CapturedNode {
  const rules = options.family === 'ipv6' ? 'ip6tables-save' : 'iptables-save'
  const faults: CaptureFault[] = []
  const state: NodeState = {
    iptables: readFile(files, rules, parseIptablesSave, faults) ?? new Map(),
    ipsets: readFile(files, 'ipset-save', parseIpsetSave, faults) ?? new Map(),
    virtualServers: readFile(files, 'ipvsadm-save', parseIpvsadmSave, faults) ?? [],
    links: readFile(files, 'ip-addr.json', parseIpAddr, faults) ?? [],
  }
  if (options.family !== 'ipv6' && files.has('ip6tables-save')) {
    const ip6tables = readFile(files, 'ip6tables-save', parseIptablesSave, faults)
    if (ip6tables && ip6tables.size > 0) state.ip6tables = ip6tables
  }
  const tables = (['nft-ip.json', 'nft-ip6.json'] as const).map((file) =>
    readFile(files, file, parseNftList, faults),
  )
  if (tables.some((list) => list !== undefined))
    state.nftables = tables.flatMap((list) => list ?? [])
  const others = readFile(
    files,
    'nft-others.json',
    (text) => linesOf(text).flatMap(parseNftList),
    faults,
  )
  if (others !== undefined && others.length > 0) state.foreignNftables = others
  const routes =
    options.family === 'ipv6' ? undefined : readFile(files, 'ip-route', parseIpRoute, faults)
  return { state: routes ? { ...state, routes } : state, faults }
}

const linesOf = (text: string): string[] => text.split('\n').filter((line) => line !== '')

function readFile<Value>(
  files: ReadonlyMap<string, string>,
  file: CaptureFile,
  parse: (text: string) => Value,
  faults: CaptureFault[],
): Value | undefined {
  const text = files.get(file)
  if (text === undefined) {
    if (REQUIRED.has(file)) faults.push({ file, message: `the file "${file}" is missing` })
    return undefined
  }
  try {
    return parse(text)
  } catch (error) {
    if (!(error instanceof ParseError)) throw error
    faults.push({ file, line: error.line, message: error.message })
    return undefined
  }
}
