import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Cluster } from '../../../cluster/driver.ts'
import { flushNat } from '../../../cluster/kube-proxy/flush-nat.ts'
import { silent } from '../../../host/progress.ts'
import { LIKE_EMBEDDED, madeCluster } from '../made-cluster.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'flush-nat-'))
})
afterEach(() => {
  vi.unstubAllEnvs()
  rmSync(folder, { recursive: true })
})

const leftovers = '*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SEP-AAAAAAAAAAAAAAAA - [0:0]\nCOMMIT\n'

/**
 * A pretended node in IPVS mode with a chain of iptables mode; `restore` is what its
 * iptables-restore does.
 */
function nodeWith(restore: string): Parameters<typeof flushNat>[0] {
  const programs = {
    'iptables-save': 'cat "$FOLDER/rules"',
    'iptables-restore': restore,
    perl: 'echo ipvs',
    ip: 'echo "[]"',
    ...Object.fromEntries(
      ['ip6tables-save', 'ipset', 'ipvsadm', 'nft'].map((name) => [name, 'true']),
    ),
  }
  writeFileSync(join(folder, 'rules'), leftovers)
  for (const [name, text] of Object.entries(programs)) {
    writeFileSync(join(folder, name), `#!/bin/sh\n${text}\n`)
    chmodSync(join(folder, name), 0o755)
  }
  const exec: Cluster['exec'] = async (_node, [program = '', ...args]) => {
    const env = { FOLDER: folder, PATH: `${folder}:/usr/bin:/bin` }
    const { status, stdout, stderr } = spawnSync(program, args, { env, encoding: 'utf8' })
    return { exitCode: status ?? 1, stdout, stderr }
  }
  return madeCluster({ capabilities: LIKE_EMBEDDED, nodes: async () => ['node'], exec })
}

const removed = 'sed -i /KUBE-SEP/d "$FOLDER/rules"'

test('what another process removed meanwhile is no failure: the node has no leftovers', async () => {
  const cluster = nodeWith(`${removed}; echo 'iptables-restore: line 3 failed' >&2; exit 1`)
  const [report] = await flushNat(cluster, { progress: silent })
  expect(report).toMatchObject({ node: 'node', mode: 'ipvs', removed: ['nat: 1 chain'] })
  expect(readFileSync(join(folder, 'rules'), 'utf8')).not.toContain('KUBE-')
})

test('what stays is named with the reason', async () => {
  const cluster = nodeWith(`echo 'iptables-restore: line 3 failed' >&2; exit 1`)
  await expect(flushNat(cluster, { progress: silent })).rejects.toThrow(
    'node still has nat: 1 chain of mode "iptables" (iptables-restore: line 3 failed): run `make flush-nat` again.',
  )
})

test('a kube-proxy that has just started is waited for, and one that never answers is named', async () => {
  const cluster = nodeWith(removed)
  // http_get is a program of perl. It fails until it was asked twice.
  const answersLate = '[ -e "$FOLDER/asked" ] && echo ipvs || { : >"$FOLDER/asked"; exit 1; }'
  writeFileSync(join(folder, 'perl'), `#!/bin/sh\n${answersLate}\n`)
  const [report] = await flushNat(cluster, { progress: silent })
  expect(report).toMatchObject({ removed: ['nat: 1 chain'] })

  vi.stubEnv('LAB_TIMEOUT_SCALE', '0.1')
  writeFileSync(join(folder, 'perl'), '#!/bin/sh\nexit 1\n')
  await expect(flushNat(cluster, { progress: silent })).rejects.toThrow(
    'kube-proxy on node does not report which mode runs, so what other modes left is not known: see `make kube-proxy-logs`.',
  )
})
