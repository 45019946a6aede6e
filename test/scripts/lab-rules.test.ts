import { spawnSync } from 'node:child_process'
import { describe, expect, test } from 'vitest'
import type { Cluster } from '../../cluster/driver.ts'
import { removeRules } from '../../course/lab-solution.ts'

/** Runs a script in a network namespace that is thrown away behind it. */
const inNamespace = (script: string, word = '') =>
  spawnSync('unshare', ['-n', 'sh', '-c', script, word], { encoding: 'utf8' })

/** What a namespace holds after the rules were written through these back ends and removed. */
async function leftAfter(writes: readonly string[], words: readonly string[]): Promise<string> {
  let left = ''
  const node = {
    nodes: async () => ['node'],
    exec: async (_node: string, [, , script = '']: readonly string[]) => {
      const show =
        'for one in iptables-legacy iptables-nft ip6tables-legacy ip6tables-nft; do $one-save; done 2>/dev/null'
      const { stdout, stderr } = inNamespace(`${writes.join(' && ')} || exit 9; sh -c "$0" || exit 8; ${show}`, script)
      left =
        stdout
          .split('\n')
          .filter((line) => line.startsWith('-A'))
          .join('\n') + stderr
      return { exitCode: 0, stdout: '', stderr: '' }
    },
  }
  await removeRules(node as unknown as Cluster, words)
  return left
}

describe.each(['legacy', 'nft'])('rules written through iptables-%s', (backend) => {
  const probe = (family: string) => `${family}-${backend} -t mangle -A INPUT -p tcp --syn -m comment --comment probe`
  const reject = `iptables-${backend} -A FORWARD -p tcp -m comment --comment lab-5 -j REJECT`
  const foreign = `iptables-${backend} -A FORWARD -m comment --comment lab-50 -j ACCEPT`
  const can = inNamespace(`${probe('ip6tables')} && ${reject}`).status === 0

  test.skipIf(!can)('are removed in both families, and no other rule', async () => {
    const left = await leftAfter([probe('iptables'), probe('ip6tables'), reject, foreign], ['probe', 'lab-5'])
    expect(left.split('\n')).toEqual([expect.stringContaining('--comment lab-50')])
  })
})
