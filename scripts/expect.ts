// Predicts the state that kube-proxy programs on a node. See --help.

import {
  type ExpectArguments,
  expectArguments,
  givenObjects,
  HELP,
  ownAddresses,
  printState,
  readInput,
} from '../course/expect.ts'
import { recordedNode } from '../course/recorded-node.ts'
import { compareNodeState, type Finding } from '../dataplane/compare.ts'
import {
  clusterConfig,
  type KubeProxyConfig,
  parseKubeProxyConfiguration,
  withCircumstances,
} from '../dataplane/kube-proxy/config.ts'
import { newestBefore } from '../dataplane/kube-proxy/versions.ts'
import type { NodeState } from '../dataplane/node-state.ts'
import type { ClusterObjects } from '../dataplane/objects.ts'
import { predict } from '../dataplane/predict.ts'
import { ExitCode, main, UserError } from '../host/main.ts'

/** The requested version, else the Node's; for a version later than the modelled ones the newest, with a note. */
function versionFor({ version, node }: ExpectArguments, objects: ClusterObjects): string {
  if (version !== undefined) return version
  const own = objects.nodes.find(({ name }) => name === node)?.kubeProxyVersion
  if (own === undefined) throw new UserError(`Node "${node}" does not report its version; add --kube-proxy v1.30.`)
  const newest = newestBefore(own)
  if (newest === undefined) return own
  process.stderr.write(`kube-proxy "${own}" is newer than the modelled versions; using ${newest}.\n`)
  return newest
}

async function predictFor(given: ExpectArguments, observed: NodeState | undefined) {
  const objects = await givenObjects(given)
  const configured: KubeProxyConfig =
    given.config === undefined ? clusterConfig(objects) : parseKubeProxyConfiguration(await readInput(given.config))
  const config = observed ? withCircumstances(configured, observed) : configured
  const mode = given.mode ?? config.mode
  if (mode === undefined) throw new UserError('--mode is missing, and no kube-proxy configuration sets it.')
  const addresses = given.addresses.length > 0 ? given.addresses : observed ? ownAddresses(observed) : undefined
  const expected = predict(objects, {
    node: given.node,
    mode,
    version: versionFor(given, objects),
    config,
    family: given.family,
    ...(addresses ? { nodeAddresses: addresses } : {}),
  })
  return { expected, mode }
}

const HEADINGS: [Finding['kind'], string][] = [
  ['missing', 'Missing'],
  ['stale', 'Stale'],
  ['wrong', 'Wrong'],
  ['order', 'Out of order'],
]

function report(findings: readonly Finding[]): string {
  if (findings.length === 0) return 'Equal: the node has exactly what kube-proxy programs.\n'
  return HEADINGS.map(([kind, heading]) => {
    const texts = findings.filter((finding) => finding.kind === kind).map((finding) => `  ${finding.text}\n`)
    return texts.length === 0 ? '' : `${heading} (${texts.length}):\n${texts.join('')}`
  }).join('')
}

await main(async () => {
  const given = expectArguments(process.argv.slice(2))
  if (given === 'help') {
    process.stdout.write(HELP)
    return ExitCode.passed
  }
  if (given.diff === undefined) {
    process.stdout.write(printState((await predictFor(given, undefined)).expected, given.as ?? 'json'))
    return ExitCode.passed
  }
  const observed = recordedNode(given.diff, given.node, given.family)
  const { expected, mode } = await predictFor(given, observed)
  const findings = compareNodeState(expected, observed, {
    mode: mode === 'ipvs' ? 'ipvs' : 'iptables',
    untouched: true,
  })
  process.stdout.write(report(findings))
  return findings.length === 0 ? ExitCode.passed : ExitCode.notYet
})
