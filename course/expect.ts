import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Difference } from '../dataplane/compare.ts'
import { printIpAddr } from '../dataplane/ip-addr.ts'
import { acceptedFamily } from '../dataplane/ip-address.ts'
import { printIpsetSave } from '../dataplane/ipset-save.ts'
import { printIptablesSave, type Table } from '../dataplane/iptables-save.ts'
import { printIpvsadmSave } from '../dataplane/ipvsadm-save.ts'
import { observedOptions } from '../dataplane/kube-proxy/circumstances.ts'
import {
  clusterConfig,
  KUBE_PROXY_MODES,
  parseKubeProxyConfiguration,
} from '../dataplane/kube-proxy/config.ts'
import { inKernelOrder } from '../dataplane/kube-proxy/ruleset-builder.ts'
import { newestBefore } from '../dataplane/kube-proxy/versions.ts'
import { printNftTable } from '../dataplane/nft-transaction.ts'
import { differencesOn } from '../dataplane/node-differences.ts'
import type { NodeState } from '../dataplane/node-state.ts'
import type { ClusterObjects } from '../dataplane/objects.ts'
import { predict } from '../dataplane/predict.ts'
import { ExitCode, Refusal } from '../host/main.ts'
import { plainJson } from '../host/plain-text.ts'
import { readInput, readObjectsAt } from './input-objects.ts'
import { recordedNode } from './read-node.ts'

/** The values of the options that take one of a list. */
export const CHOICES = {
  mode: KUBE_PROXY_MODES,
  as: ['iptables-save', 'ipset-save', 'ipvsadm-save', 'ip-addr', 'nft', 'json'],
  family: ['ipv4', 'ipv6'],
} as const
type OptionValue<Option extends keyof typeof CHOICES> = (typeof CHOICES)[Option][number]

const text = { type: 'string' } as const
/** The options of scripts/expect.ts, for parseArgs. */
export const expectOptions = {
  objects: text,
  node: text,
  mode: text,
  'kube-proxy': text,
  as: text,
  diff: text,
  config: text,
  family: text,
  address: { type: 'string', multiple: true },
} as const
type ExpectOptions = { [Name in Exclude<keyof typeof expectOptions, 'address'>]?: string } & {
  address?: string[]
}

/**
 * Prints the state that kube-proxy programs on a node, or its differences from a recorded node.
 * Returns the exit code.
 * @throws Refusal with all errors of the options, or one in the input
 */
export async function printExpected(options: ExpectOptions): Promise<number> {
  const { node, mode: wanted, as, family } = checked(options)
  const observed = options.diff === undefined ? undefined : recordedNode(options.diff, node, family)
  const objects = await readInputObjects(options)
  const configured =
    options.config === undefined
      ? clusterConfig(objects)
      : parseKubeProxyConfiguration(await readInput(options.config))
  const mode = wanted ?? configured.mode
  if (mode === undefined)
    throw new Refusal('--mode is missing, and no kube-proxy configuration sets it.')
  const version = options['kube-proxy'] ?? versionOf(objects, node)
  const address = options.address && { nodeAddresses: options.address }
  if (!observed) {
    const expected = predict(objects, {
      node,
      mode,
      version,
      config: configured,
      family,
      ...address,
    })
    process.stdout.write(printState(expected, as))
    return ExitCode.passed
  }
  const circumstances = observedOptions(objects, observed, {
    node,
    mode,
    version,
    config: configured,
  })
  const { differences } = differencesOn(
    objects,
    observed,
    { ...circumstances, family, ...address },
    true,
  )
  process.stdout.write(report(differences))
  return differences.length === 0 ? ExitCode.passed : ExitCode.notYet
}

function checked(options: ExpectOptions) {
  const faults: string[] = []
  const choice = <Option extends keyof typeof CHOICES>(
    option: Option,
  ): OptionValue<Option> | undefined => {
    const choices: readonly OptionValue<Option>[] = CHOICES[option]
    const found = choices.find((one) => one === options[option])
    if (options[option] !== undefined && found === undefined)
      faults.push(`--${option} "${options[option]}" is not one of ${choices.join(', ')}.`)
    return found
  }
  const chosen = {
    mode: choice('mode'),
    as: choice('as') ?? 'json',
    family: choice('family') ?? 'ipv4',
  } as const
  if (!options.node) faults.push('--node is missing.')
  if (options.objects === undefined && options.diff === undefined)
    faults.push('--objects is missing.')
  if (options.as !== undefined && options.diff !== undefined)
    faults.push('--as and --diff cannot be used together.')
  for (const address of options.address ?? [])
    if (!acceptedFamily(address)) faults.push(`--address "${address}" is not an IP address.`)
  if (faults.length > 0)
    throw new Refusal(`${faults.join('\n')}\nSee: node --import tsx scripts/expect.ts --help`)
  return { ...chosen, node: options.node ?? '' }
}

/**
 * The version in the Node's status; for a version later than the modelled ones the newest, with a
 * note.
 */
function versionOf(objects: ClusterObjects, node: string): string {
  const own = objects.nodes.find(({ name }) => name === node)?.kubeProxyVersion
  if (own === undefined)
    throw new Refusal(`Node "${node}" does not report its version; add --kube-proxy v1.30.`)
  const newest = newestBefore(own)
  if (newest === undefined) return own
  process.stderr.write(
    `kube-proxy "${own}" is newer than the modelled versions; using ${newest}.\n`,
  )
  return newest
}

const HEADINGS: [Difference['kind'], string][] = [
  ['missing', 'Missing'],
  ['stale', 'Stale'],
  ['wrong', 'Wrong'],
  ['order', 'Out of order'],
]

function report(differences: readonly Difference[]): string {
  const [own, foreign] = [false, true].map((interferes) =>
    differences.filter((difference) => (difference.interferes ?? false) === interferes),
  )
  const section = (heading: string, listed: readonly Difference[] = []) =>
    listed.length === 0
      ? ''
      : `${heading} (${listed.length}):\n${listed.map(({ text }) => `  ${text}\n`).join('')}`
  const sections = HEADINGS.map(([kind, heading]) =>
    section(
      heading,
      own?.filter((difference) => difference.kind === kind),
    ),
  )
  const equal = own?.length === 0 ? 'Equal: the node has exactly what kube-proxy programs.\n' : ''
  return `${equal}${sections.join('')}${section("Not kube-proxy's, but packets for Services meet it", foreign)}`
}

/**
 * The API objects of --objects, else those of the capture that is compared. An invalid object is
 * reported on standard error, and omitted.
 * @throws Refusal when there are none or they are not JSON, ObjectsError when they are not a list
 * of objects.
 */
async function readInputObjects({ objects, diff }: ExpectOptions): Promise<ClusterObjects> {
  const beside = diff === undefined ? undefined : join(diff, 'objects.json')
  const path = objects ?? (beside !== undefined && existsSync(beside) ? beside : undefined)
  if (path === undefined)
    throw new Refusal(`"${diff}" does not contain "objects.json"; add --objects FILE.`)
  const { objects: found, leftOut } = await readObjectsAt(path)
  for (const text of leftOut) process.stderr.write(`${text}\n`)
  return found
}

function toJson({ iptables, ipsets, virtualServers, links, nftables }: NodeState): unknown {
  const chainsIn = (table: Table) =>
    [...table].map(
      ([name, { policy, rules }]) =>
        [name, { policy, rules: rules.map(({ spec }) => spec) }] as const,
    )
  const state = {
    iptables: new Map(
      [...inKernelOrder(iptables)].map(([name, table]) => [name, new Map(chainsIn(table))]),
    ),
    ipsets: new Map(
      [...ipsets].map(([name, { type, options, members }]) => [name, { type, options, members }]),
    ),
    virtualServers,
    links,
    nftables,
  }
  return JSON.parse(JSON.stringify(state, withoutMaps))
}

/** For JSON.stringify: maps as objects, sets as lists. */
const withoutMaps = (_key: string, value: unknown): unknown =>
  value instanceof Map ? Object.fromEntries(value) : value instanceof Set ? [...value] : value

/** The part of a state that the named tool prints, or the whole state as JSON. */
function printState(state: NodeState, format: OptionValue<'as'>): string {
  if (format === 'iptables-save') return printIptablesSave(inKernelOrder(state.iptables))
  if (format === 'ipset-save') return printIpsetSave(state.ipsets)
  if (format === 'ipvsadm-save') return printIpvsadmSave(state.virtualServers)
  if (format === 'nft') return (state.nftables ?? []).map(printNftTable).join('\n')
  const text = format === 'ip-addr' ? printIpAddr(state.links) : plainJson(toJson(state))
  return text.endsWith('\n') ? text : `${text}\n`
}
