import { parseIptablesSave, type Ruleset } from '../../dataplane/iptables-save.ts'
import { planFlush } from '../../dataplane/kube-proxy/flush.ts'
import { printVirtualServerDeletions } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { printNftTransactions } from '../../dataplane/nft-transaction.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { type GuestNode, NFTABLES_MARK, restoreCommand, type StepsResult } from './guest-node.ts'
import { hourMs, Proxier, type SyncChange } from './proxier.ts'
import { StartFailure } from './settings.ts'

/**
 * kube-proxy itself tries a table (pkg/proxy/nftables, getNFTablesInterface); `nft --check` asks
 * the kernel and changes nothing.
 */
const probe =
  "nft --check 'add table ip kube-proxy; add chain ip kube-proxy probe { type nat hook prerouting priority -100; }'"

/**
 * kube-proxy's nftables mode: one table in each family. After a full sync only what changed is
 * written, in one transaction.
 */
export class NftablesProxier extends Proxier {
  readonly maxIntervalMs = hourMs
  protected readonly mode = 'nftables'
  protected readonly failure = ['proxier.go:1790', 'nftables sync failed'] as const

  async prepare(): Promise<void> {
    const { guest, log } = this.context
    const { exitCode, stderr } = await guest.run(`${probe} && echo >${NFTABLES_MARK}\n`)
    if (exitCode !== 0)
      throw new StartFailure(
        `unable to create proxier: the kernel has no nat for nft (nft_chain_nat): ${stderr.trim().split('\n')[0]}`,
      )
    await removeLeftovers(guest)
    log('I', 'server_linux.go:240', 'Using nftables Proxier')
  }

  protected read(): Promise<NodeState> {
    return this.context.guest.read('nftables', 'links')
  }

  protected write({ wanted, current, full }: SyncChange): Promise<StepsResult> {
    const scripts = (wanted.nftables ?? []).flatMap((table) =>
      printNftTransactions(
        current.nftables?.find(({ family }) => family === table.family),
        table,
        full,
      ),
    )
    return this.context.guest.apply(
      scripts.map((input) => ({ command: 'nft -f -', input, needed: true })),
    )
  }
}

/**
 * What kube-proxy removes of the other modes when it starts in this one (CleanupLeftovers of
 * pkg/proxy/iptables and ipvs, 1.31-1.36), of both IP families: all but the chain that both have
 * rules jump to, and the sets of IPv6, which it looks for by the names of IPv4.
 */
async function removeLeftovers(guest: GuestNode): Promise<void> {
  const state = await guest.read('iptables', 'ipsets', 'virtualServers', 'links')
  const { stdout } = await guest.run('ip6tables-save\n')
  const { ipv4, ipv6, virtualServers, linkAddresses, sets } = planFlush(
    'nftables',
    { ...state, iptables: withoutSharedChain(state.iptables) },
    withoutSharedChain(parseIptablesSave(stdout)),
  )
  const ownSets = sets.filter(({ name }) => !name.startsWith('KUBE-6-'))
  await guest.apply([
    { command: restoreCommand, input: ipv4.restore },
    { command: `ip6${restoreCommand.slice('ip'.length)}`, input: ipv6.restore },
    { command: 'ipvsadm -R', input: printVirtualServerDeletions(virtualServers) },
    { command: 'ip -batch -', input: linkAddresses ? 'link delete kube-ipvs0\n' : '' },
    { command: 'ipset restore', input: ownSets.map(({ name }) => `destroy ${name}\n`).join('') },
  ])
}

function withoutSharedChain(ruleset: Ruleset): Ruleset {
  const nat = new Map(ruleset.get('nat'))
  nat.delete('KUBE-MARK-MASQ')
  return new Map(ruleset).set('nat', nat)
}
