// What would kube-proxy program on this node? See --help.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { compareNodeState, type Finding } from '../dataplane/compare.ts'
import { withCircumstances } from '../dataplane/kube-proxy/circumstances.ts'
import { clusterConfig } from '../dataplane/kube-proxy/cluster-config.ts'
import { type KubeProxyConfig, parseKubeProxyConfiguration } from '../dataplane/kube-proxy/config.ts'
import type { NodeState } from '../dataplane/node-state.ts'
import { type ClusterObjects, readObjects } from '../dataplane/objects.ts'
import { predict } from '../dataplane/predict.ts'
import { type ExpectArguments, expectArguments, HELP } from './expect/arguments.ts'
import { nodeFolder, observedNode, ownAddresses } from './expect/observed-node.ts'
import { printState } from './expect/print-state.ts'
import { ExitCode, main, UserError } from './main.ts'

function readInput(path: string): string {
  try {
    return readFileSync(path === '-' ? 0 : path, 'utf8')
  } catch (error) {
    const reason =
      error instanceof Error && 'code' in error && error.code === 'ENOENT' ? 'does not exist' : 'is unreadable'
    throw new UserError(`"${path}" ${reason}; write it with: kubectl get nodes,services,endpointslices -A -o json`)
  }
}

function objectsOf({ objects, diff }: ExpectArguments): ClusterObjects {
  const beside = diff === undefined ? undefined : join(diff, 'objects.json')
  const path = objects ?? (beside !== undefined && existsSync(beside) ? beside : undefined)
  if (path === undefined) throw new UserError(`"${diff}" holds no "objects.json"; add --objects FILE.`)
  let json: unknown
  try {
    json = JSON.parse(readInput(path))
  } catch (error) {
    if (error instanceof UserError) throw error
    throw new UserError(`"${path}" is no JSON; write it with: kubectl get nodes,services,endpointslices -A -o json`)
  }
  return readObjects(json).objects
}

function predictFor(given: ExpectArguments, observed: NodeState | undefined): { expected: NodeState; mode: string } {
  const objects = objectsOf(given)
  const configured: KubeProxyConfig =
    given.config === undefined ? clusterConfig(objects) : parseKubeProxyConfiguration(readInput(given.config))
  const config = observed ? withCircumstances(configured, observed) : configured
  const mode = given.mode ?? config.mode
  if (mode === undefined) throw new UserError('--mode is missing, and no configuration of kube-proxy says it.')
  if (mode === 'nftables')
    throw new UserError('Mode "nftables" is not modelled; only iptables, ipvs and userspace are.')
  const addresses = given.addresses.length > 0 ? given.addresses : observed ? ownAddresses(observed) : undefined
  const expected = predict(objects, {
    node: given.node,
    mode,
    version: given.version,
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
  if (findings.length === 0) return 'Equal: the node holds what kube-proxy programs.\n'
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
    process.stdout.write(printState(predictFor(given, undefined).expected, given.as ?? 'json'))
    return ExitCode.passed
  }
  const observed = observedNode(nodeFolder(given.diff, given.node), given.family)
  const { expected, mode } = predictFor(given, observed)
  const findings = compareNodeState(expected, observed, {
    mode: mode === 'ipvs' ? 'ipvs' : 'iptables',
    untouched: true,
  })
  process.stdout.write(report(findings))
  return findings.length === 0 ? ExitCode.passed : ExitCode.notYet
})
