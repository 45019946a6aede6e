import { type Capture, readCaptureFolder } from '../cluster/capture-folder.ts'
import type { Cluster } from '../cluster/driver.ts'
import { kubeClient } from '../cluster/kube-client.ts'
import { takeCapture } from '../cluster/snapshot.ts'
import { type Link, parseIpAddr } from '../dataplane/ip-addr.ts'
import {
  clusterConfig,
  type KubeProxyConfig,
  type KubeProxyMode,
  parseKubeProxyConfiguration,
} from '../dataplane/kube-proxy/config.ts'
import { newestBefore } from '../dataplane/kube-proxy/versions.ts'
import type { MigrationSide } from '../dataplane/migration/compare-nodes.ts'
import { planMigration } from '../dataplane/migration/plan-migration.ts'
import { printMigrationReport } from '../dataplane/migration/print-report.ts'
import { type MigrationReport, publishMigration } from '../dataplane/migration/report-shape.ts'
import { type ClusterObjects, leftOutObjects, readObjects } from '../dataplane/objects.ts'
import { ParseError } from '../dataplane/program-output.ts'
import { ExitCode, Refusal } from '../host/main.ts'
import { plainJson, plainText } from '../host/plain-text.ts'
import { CHOICES } from './expect.ts'
import { readInput, readObjectsAt } from './input-objects.ts'

const text = { type: 'string' } as const
/** The options of scripts/migration.ts, for parseArgs. */
export const migrationOptions = {
  objects: text,
  capture: text,
  from: text,
  to: text,
  'kube-proxy': text,
  config: text,
  node: { type: 'string', multiple: true },
  json: { type: 'boolean' },
} as const

interface MigrationOptions {
  objects?: string
  capture?: string
  from?: string
  to?: string
  'kube-proxy'?: string
  config?: string
  node?: string[]
  json?: boolean
}

/** What is known about a cluster: links only if its nodes were read. */
interface GivenCluster {
  objects: ClusterObjects
  leftOut: string[]
  links?: ReadonlyMap<string, readonly Link[]>
}

/**
 * Prints what a change of kube-proxy's mode does to a cluster, given as objects or running. Returns
 * the exit code: 1 if something stops.
 * @param selected the running cluster, opened only if no objects are given
 * @throws Refusal with what is wrong with the options or the input
 */
export async function reportMigration(
  options: MigrationOptions,
  selected: () => Promise<Cluster>,
): Promise<number> {
  const to = parseSide('--to', options.to)
  if (to.mode === undefined)
    throw new Refusal('The new mode is missing: give TO=nftables, or --to nftables.')
  const from = parseSide('--from', options.from)
  const { objects, leftOut, links } = await readInputCluster(options, selected)
  const config =
    options.config === undefined
      ? clusterConfig(objects)
      : parseKubeProxyConfiguration(await readInput(options.config))
  checkNodes(objects, options.node)
  const version = options['kube-proxy'] ?? from.version ?? versionIn(objects, leftOut)
  const report: MigrationReport = {
    ...planMigration(
      objects,
      { mode: from.mode ?? requestedMode(config), version: from.version ?? version },
      { mode: to.mode, version: to.version ?? version },
      { config, ...(options.node && { nodes: options.node }), ...(links && { links }) },
    ),
    leftOut,
  }
  const { isTTY, columns } = process.stdout
  const lines = printMigrationReport(report, (isTTY && columns) || 80)
  process.stdout.write(
    options.json ? `${plainJson(publishMigration(report))}\n` : `${plainText(lines.join('\n'))}\n`,
  )
  return report.breaks > 0 ? ExitCode.notYet : ExitCode.passed
}

/** kube-proxy runs iptables mode if its configuration names none. */
const requestedMode = ({ mode }: KubeProxyConfig): KubeProxyMode => mode ?? 'iptables'

/** The objects of a file, or a capture: of a folder, or of the running cluster. */
async function readInputCluster(
  { objects: file, capture: folder }: MigrationOptions,
  selected: () => Promise<Cluster>,
): Promise<GivenCluster> {
  if (file !== undefined && folder !== undefined)
    throw new Refusal('--objects and --capture cannot be used together.')
  if (file !== undefined) return readObjectsAt(file)
  if (folder !== undefined) return clusterOf(readCaptureFolder(folder))
  const cluster = await selected()
  return clusterOf(await takeCapture(cluster, await kubeClient(cluster)))
}

/** A node whose addresses can't be read gets those of its Node object. */
function clusterOf({ objects: list, nodes }: Capture): GivenCluster {
  const { objects, faults } = readObjects(list)
  const read = nodes.flatMap(({ name, files }): [string, Link[]][] => {
    try {
      return [[name, parseIpAddr(files.get('ip-addr.json') ?? '')]]
    } catch (error) {
      if (error instanceof ParseError) return []
      throw error
    }
  })
  return { objects, leftOut: leftOutObjects(faults), links: new Map(read) }
}

/** `nftables` or `nftables@v1.34`; nothing if the option is absent. */
function parseSide(option: string, value: string | undefined): Partial<MigrationSide> {
  if (value === undefined) return {}
  const [name, version, ...rest] = value.split('@')
  const mode = CHOICES.mode.find((one) => one === name)
  if (mode === undefined || rest.length > 0 || version === '')
    throw new Refusal(
      `${option} "${value}" is not a mode: use ${CHOICES.mode.join(', ')}, or one with a version, such as nftables@v1.34.`,
    )
  return { mode, ...(version && { version }) }
}

function checkNodes({ nodes }: ClusterObjects, wanted: readonly string[] = []): void {
  if (nodes.length === 0)
    throw new Refusal(
      'The objects contain no Node; write them with: kubectl get nodes,services,endpointslices,configmaps -A -o json',
    )
  const names = nodes.map(({ name }) => name)
  const unknown = wanted.find((name) => !names.includes(name))
  if (unknown !== undefined)
    throw new Refusal(`Node "${unknown}" is not among the objects; they have ${names.join(', ')}.`)
}

/**
 * The oldest version that the Nodes report; of one later than the modelled versions the newest,
 * with a note.
 */
function versionIn({ nodes }: ClusterObjects, notes: string[]): string {
  const byNumber = (one: string, other: string) => one.localeCompare(other, 'en', { numeric: true })
  const [oldest] = nodes.flatMap(({ kubeProxyVersion }) => kubeProxyVersion ?? []).sort(byNumber)
  if (oldest === undefined)
    throw new Refusal('The Nodes do not report their version; add --kube-proxy v1.34.')
  const newest = newestBefore(oldest)
  if (newest === undefined) return oldest
  notes.push(`kube-proxy "${oldest}" is newer than the modelled versions; v${newest} is assumed`)
  return `v${newest}`
}
