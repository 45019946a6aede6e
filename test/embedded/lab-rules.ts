import type { Cluster } from '../../cluster/driver.ts'
import { removeRules } from '../../course/lab-solution.ts'
import { alteredCluster } from '../altered-cluster.ts'

/**
 * Writes rules of two labs and a foreign one on a node through a back end of iptables; what is left
 * after the labs removed theirs. As on kind, both back ends are searched: a node of the embedded
 * cluster has only one `iptables`, and nothing else is searched there.
 */
export async function rulesLeft(
  cluster: Cluster,
  node: string,
  backend: 'legacy' | 'nft',
): Promise<string[]> {
  const probe = (family: string) =>
    `${family}-${backend} -t mangle -A INPUT -p tcp --syn -m comment --comment probe`
  const forward = `iptables-${backend} -A FORWARD -p tcp -m comment --comment`
  const writes = [
    probe('iptables'),
    probe('ip6tables'),
    `${forward} lab-5 -j REJECT`,
    `${forward} lab-50 -j ACCEPT`,
  ]
  const print = `for family in iptables ip6tables; do $family-${backend}-save; done | grep -E -- '--comment (probe|lab)'`
  const run = async (script: string) => {
    const { exitCode, stdout, stderr } = await cluster.exec(node, ['sh', '-c', script], {
      timeoutMs: 60_000,
    })
    if (exitCode !== 0) throw new Error(`"${script}" on ${node}: ${stderr}`)
    return stdout.trim().split('\n')
  }
  const written = await run(`${writes.join(' && ')} && { ${print}; }`)
  if (written.length !== writes.length)
    throw new Error(`only these rules were written: ${written.join('; ')}`)
  const asKind = alteredCluster(cluster, {
    capabilities: { ...cluster.capabilities, ownIptables: false },
  })
  await removeRules(asKind, ['probe', 'lab-5'])
  const left = await run(print)
  await run(`${forward.replace('-A', '-D')} lab-50 -j ACCEPT`)
  return left
}
