import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { cacheFolder } from '../../host/layout.ts'
import { consent } from '../consent.ts'
import type { Cluster } from '../driver.ts'
import { PATH } from '../node-report.ts'
import { describeBackends, iptablesBackends, runOnNode } from '../node-script.ts'
import { fetchForNode, HostPackagesError } from './host-packages.ts'

/** The tools with which the labs read IPVS and its sets; kube-proxy does not install them on the node. */
const nodeTools: readonly string[] = ['ipset', 'ipvsadm']

/** Tools could not be installed on a node; the sentence names what was tried and what to do. */
export class NodeToolsError extends Error {}

/** The tools installed on one node. */
interface ToolsReport {
  node: string
  /** Tools that were missing, and their source. */
  installed: readonly string[]
  from: "the node's apt" | "this machine's apt" | undefined
  /** The paths of all tools. */
  paths: string[]
}

const locate = `${PATH}
for tool; do command -v "$tool"; done; true`

/** A node without a network must fail fast. */
const fastFailure = '-o Acquire::Retries=0 -o Acquire::http::Timeout=15 -o Acquire::https::Timeout=15'
const installOnNode = (names: readonly string[]) =>
  `export DEBIAN_FRONTEND=noninteractive
apt-get ${fastFailure} update -q && apt-get ${fastFailure} install -qy --no-install-recommends ${names.join(' ')}`

const inbox = '/run/kube-service-labs-packages'

/**
 * Installs ipset and ipvsadm on one node: with the node's own apt, else from packages that this machine's apt fetches for it.
 * Existing tools are not changed.
 * @throws NodeToolsError when neither works
 */
export async function installNodeTools(cluster: Cluster, node: string, cache = cacheFolder): Promise<ToolsReport> {
  const before = await pathsOf(cluster, node)
  const missing = nodeTools.filter((tool) => !before.some((path) => basename(path) === tool))
  if (missing.length === 0) return { node, installed: [], from: undefined, paths: before }
  const refusal = await fromOwnApt(cluster, node, missing)
  if (refusal !== undefined) await fromHost(cluster, node, missing, { refusal, cache })
  return {
    node,
    installed: missing,
    from: refusal === undefined ? "the node's apt" : "this machine's apt",
    paths: await pathsOf(cluster, node),
  }
}

async function pathsOf(cluster: Cluster, node: string): Promise<string[]> {
  const { stdout } = await runOnNode(cluster, node, locate, { args: nodeTools, timeoutMs: 30_000, readOnly: true })
  return stdout.split('\n').filter((line) => line.startsWith('/'))
}

/** Undefined when it worked, else why not. */
async function fromOwnApt(cluster: Cluster, node: string, names: readonly string[]): Promise<string | undefined> {
  const { exitCode, stdout, stderr } = await cluster.exec(node, ['sh', '-c', installOnNode(names)], {
    timeoutMs: 300_000,
  })
  if (exitCode === 0) return undefined
  if (/apt-get: (command )?not found/.test(stderr)) return 'it has no apt-get'
  const lines = `${stdout}\n${stderr}`.trim().split('\n')
  return lines.find((line) => line.startsWith('E: '))?.replace(/^E: /, '') ?? lines.at(-1) ?? `exit code ${exitCode}`
}

async function fromHost(
  cluster: Cluster,
  node: string,
  names: readonly string[],
  { refusal, cache }: { refusal: string; cache: string },
): Promise<void> {
  const failed = (reason: string) => {
    const image = '`make node-image` builds them into the node image where there is a network, `make down up` uses it.'
    const advice = cluster.driver === 'kind' ? image : 'Install them with the package manager of the node.'
    return new NodeToolsError(`${names.join(' and ')} can't be installed on ${node}: ${refusal}; ${reason}. ${advice}`)
  }
  try {
    const archives = await fetchOnce(cluster, node, names, cache)
    for (const archive of archives) {
      const write = ['sh', '-c', `mkdir -p ${inbox} && cat >"$0"`, `${inbox}/${basename(archive)}`]
      const { exitCode, stderr } = await cluster.exec(node, write, { stdin: readFileSync(archive) })
      if (exitCode !== 0) throw failed(`the packages can't be written there (${stderr.trim()})`)
    }
    const install = `dpkg --install ${inbox}/*.deb; code=$?; rm -r ${inbox}; exit $code`
    const { exitCode, stderr } = await cluster.exec(node, ['sh', '-c', install], { timeoutMs: 120_000 })
    if (exitCode !== 0) throw failed(`dpkg refuses the packages (${stderr.trim().split('\n').at(-1)})`)
  } catch (error) {
    if (error instanceof HostPackagesError) throw failed(error.message)
    throw error
  }
}

/**
 * All nodes of a cluster have the same distribution: the first installation fetches the packages for all. Each node gets its
 * own copy.
 */
const fetches = new WeakMap<Cluster, Map<string, Promise<string[]>>>()

function fetchOnce(cluster: Cluster, node: string, names: readonly string[], cache: string): Promise<string[]> {
  const ofCluster = fetches.get(cluster) ?? new Map<string, Promise<string[]>>()
  fetches.set(cluster, ofCluster)
  const key = names.join()
  const fetch = ofCluster.get(key) ?? fetchForNode(cluster, node, names, cache)
  ofCluster.set(key, fetch)
  return fetch
}

/**
 * Installs ipset and ipvsadm on every node that lacks them. Returns a line for each node, which also names the iptables back
 * end. Throws NodeToolsError when they can't be installed.
 */
export async function installToolsEverywhere(cluster: Cluster): Promise<string[]> {
  const nodes = await cluster.nodes()
  await consent(cluster, `install ipset and ipvsadm on the nodes that lack them (of ${nodes.length})`)
  return Promise.all(
    nodes.map(async (node) => {
      const { installed, from, paths } = await installNodeTools(cluster, node)
      const how = from === undefined ? 'already installed' : `installed ${installed.join(' and ')} from ${from}`
      return `${node}: ${how} (${paths.join(', ')}); ${describeBackends(await iptablesBackends(cluster, node))}`
    }),
  )
}
