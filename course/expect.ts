import { createReadStream, existsSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { parseArgs } from 'node:util'
import { printIpAddr } from '../dataplane/ip-addr.ts'
import { acceptedFamily } from '../dataplane/ip-address.ts'
import { printIpsetSave } from '../dataplane/ipset-save.ts'
import { printIptablesSave } from '../dataplane/iptables-save.ts'
import { printIpvsadmSave } from '../dataplane/ipvsadm-save.ts'
import { DUMMY_LINK } from '../dataplane/kube-proxy/mode-ownership.ts'
import { inKernelOrder } from '../dataplane/kube-proxy/ruleset-builder.ts'
import { type NftTable, printNftTable } from '../dataplane/nft-table.ts'
import type { NodeState } from '../dataplane/node-state.ts'
import { type ClusterObjects, readObjects } from '../dataplane/objects.ts'
import { UserError } from '../host/main.ts'
import { PlainFileError, readPlainFile } from '../host/plain-file.ts'
import { plainJson, plainText } from '../host/plain-text.ts'

const FORMATS = ['iptables-save', 'ipset-save', 'ipvsadm-save', 'ip-addr', 'nft', 'json'] as const
type Format = (typeof FORMATS)[number]

const MODES = ['iptables', 'ipvs', 'nftables', 'userspace'] as const
const FAMILIES = ['ipv4', 'ipv6'] as const

export const HELP = `Usage: node --import tsx scripts/expect.ts --objects FILE --node NAME --mode MODE [--kube-proxy VERSION] [--as FORMAT]
       node --import tsx scripts/expect.ts --diff DIR --node NAME --mode MODE [--kube-proxy VERSION] [--objects FILE]

Prints what a genuine kube-proxy programs on a node, or compares it with the recorded state of a node.

  --objects FILE      output of "kubectl get nodes,services,endpointslices -A -o json"; - reads standard input
  --node NAME         the name of the node
  --mode MODE         ${MODES.join(', ')}; optional when the objects contain kube-proxy's ConfigMap
  --kube-proxy VER    its version, for example v1.30 or v1.20.2; default: the version in the Node's status
  --as FORMAT         ${FORMATS.join(', ')} (default: all parts, as JSON)
  --diff DIR          compare with a capture (DIR/nodes/NAME/...) or with a folder of one node's files
  --config FILE       a KubeProxyConfiguration (the ConfigMap's config.conf)
  --address IP        one of the node's own addresses, may be repeated; default: from the capture or the Node
  --family FAMILY     address family of the iptables rules: ${FAMILIES.join(' or ')}

Exit status: 0 printed or equal, 1 different, 2 error.
`

export interface ExpectArguments {
  objects: string | undefined
  node: string
  mode: (typeof MODES)[number] | undefined
  version: string | undefined
  as: Format | undefined
  diff: string | undefined
  config: string | undefined
  addresses: string[]
  family: (typeof FAMILIES)[number]
}

const TEXTS = ['objects', 'node', 'mode', 'kube-proxy', 'as', 'diff', 'config', 'family'] as const

function rawArguments(argv: readonly string[]) {
  const text = { type: 'string' } as const
  const texts = Object.fromEntries(TEXTS.map((name) => [name, text])) as Record<(typeof TEXTS)[number], typeof text>
  const address = { type: 'string', multiple: true } as const
  try {
    return parseArgs({ args: [...argv], options: { ...texts, address, help: { type: 'boolean', short: 'h' } } }).values
  } catch (error) {
    throw new UserError(`${error instanceof Error ? error.message.split('\n')[0] : error} See --help.`)
  }
}

/**
 * Reads the command line.
 * @throws UserError with all errors
 */
export function expectArguments(argv: readonly string[]): ExpectArguments | 'help' {
  const values = rawArguments(argv)
  if (values.help) return 'help'
  const faults: string[] = []
  const choice = <T extends string>(option: string, text: string | undefined, choices: readonly T[]): T | undefined => {
    const found = choices.find((one) => one === text)
    if (text !== undefined && found === undefined)
      faults.push(`--${option} "${text}" is not one of ${choices.join(', ')}.`)
    return found
  }
  const mode = choice('mode', values.mode, MODES)
  const as = choice('as', values.as, FORMATS)
  const family = choice('family', values.family, FAMILIES)
  if (!values.node) faults.push('--node is missing.')
  if (values.objects === undefined && values.diff === undefined) faults.push('--objects is missing.')
  if (values.as !== undefined && values.diff !== undefined) faults.push('--as and --diff cannot be used together.')
  for (const address of values.address ?? [])
    if (!acceptedFamily(address)) faults.push(`--address "${address}" is not an IP address.`)
  if (faults.length > 0) throw new UserError(`${faults.join('\n')}\nSee: node --import tsx scripts/expect.ts --help`)
  const { objects, node = '', 'kube-proxy': version, diff, config, address: addresses = [] } = values
  return { objects, node, mode, version, as, diff, config, addresses, family: family ?? 'ipv4' }
}

const ADVICE = 'write it with: kubectl get nodes,services,endpointslices -A -o json'

/** The text of a file, or of standard input for `-`. */
export async function readInput(path: string): Promise<string> {
  // A stream waits for a slow pipe; a synchronous read of the descriptor does not.
  if (path === '-') return text(process.stdin)
  // <(command) in a shell is also a pipe.
  if (/^\/(?:dev|proc\/self)\/(?:fd\/|stdin)/.test(path)) return text(createReadStream(path))
  try {
    return readPlainFile(path)
  } catch (error) {
    throw error instanceof PlainFileError ? new UserError(`"${path}" ${error.fault}; ${ADVICE}`) : error
  }
}

/**
 * The API objects of --objects, else those of the capture that is compared. An invalid object is reported on standard error,
 * and omitted.
 * @throws UserError when there are none or they are not JSON, ObjectsError when they are not a list of objects.
 */
export async function givenObjects({ objects, diff }: ExpectArguments): Promise<ClusterObjects> {
  const beside = diff === undefined ? undefined : join(diff, 'objects.json')
  const path = objects ?? (beside !== undefined && existsSync(beside) ? beside : undefined)
  if (path === undefined) throw new UserError(`"${diff}" does not contain "objects.json"; add --objects FILE.`)
  const input = await readInput(path)
  const name = path === '-' ? 'Standard input' : `"${path}"`
  if (input.trim() === '') throw new UserError(`${name} is empty; ${ADVICE}`)
  let json: unknown
  try {
    json = JSON.parse(input)
  } catch {
    throw new UserError(`${name} is not JSON; ${ADVICE}`)
  }
  const read = readObjects(json)
  const refused = new Map<string, string[]>()
  for (const { object, field, message } of read.faults) {
    const [what, fault] = object === 'input' ? [field, message] : [object, `${field} ${message}`]
    refused.set(what, [...(refused.get(what) ?? []), fault])
  }
  for (const [what, faults] of refused)
    process.stderr.write(`${plainText(`${name}: ${what} is left out: ${faults.join('; ')}.`)}\n`)
  return read.objects
}

/** The node's own addresses, without those of kube-ipvs0. */
export const ownAddresses = (state: NodeState): string[] =>
  state.links.filter((link) => link.name !== DUMMY_LINK).flatMap((link) => link.addresses.map(({ address }) => address))

/** Maps and sets as objects and lists. */
function toJson(state: NodeState): unknown {
  const iptables = Object.fromEntries(
    [...inKernelOrder(state.iptables)].map(([table, chains]) => [
      table,
      Object.fromEntries(
        [...chains].map(([name, chain]) => [
          name,
          { policy: chain.policy, rules: chain.rules.map((rule) => rule.spec) },
        ]),
      ),
    ]),
  )
  const ipsets = Object.fromEntries(
    [...state.ipsets].map(([name, { type, options, members }]) => [name, { type, options, members: [...members] }]),
  )
  const nftables = state.nftables && { nftables: state.nftables.map(tableToJson) }
  return { iptables, ipsets, virtualServers: state.virtualServers, links: state.links, ...nftables }
}

const tableToJson = ({ family, name, chains, sets, maps }: NftTable) => ({
  family,
  name,
  chains: Object.fromEntries(chains),
  sets: Object.fromEntries(
    [...sets].map(([set, { elements, ...rest }]) => [set, { ...rest, elements: [...elements] }]),
  ),
  maps: Object.fromEntries(
    [...maps].map(([map, { type, elements }]) => [map, { type, elements: Object.fromEntries(elements) }]),
  ),
})

/** The part of a state that the named tool prints, or the whole state as JSON. */
export function printState(state: NodeState, format: Format): string {
  if (format === 'iptables-save') return printIptablesSave(inKernelOrder(state.iptables))
  if (format === 'ipset-save') return printIpsetSave(state.ipsets)
  if (format === 'ipvsadm-save') return printIpvsadmSave(state.virtualServers)
  if (format === 'nft') return (state.nftables ?? []).map(printNftTable).join('\n')
  const text = format === 'ip-addr' ? printIpAddr(state.links) : plainJson(toJson(state))
  return text.endsWith('\n') ? text : `${text}\n`
}
