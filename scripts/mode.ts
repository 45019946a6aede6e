import { describeProof } from '../cluster/kube-proxy/proof.ts'
import { switchMode } from '../cluster/kube-proxy/switch-mode.ts'
import { runningCluster } from '../cluster/select.ts'
import { main, Refusal } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'
import { isOn } from '../host/switches.ts'
import { linesFor } from '../host/wrap-lines.ts'

/** The version whose userspace mode is modelled; 1.26 removed it. */
const USERSPACE_VERSION = '1.20'

await main(async () => {
  const mode = process.argv[2]
  if (mode !== 'ipvs' && mode !== 'iptables' && mode !== 'nftables' && mode !== 'userspace')
    throw new Refusal(
      `"${mode ?? ''}" is not a mode: run \`make ipvs\`, \`make iptables\`, \`make nftables\` or \`make userspace\`.`,
    )
  const cluster = await runningCluster()
  const { changed, before, proofs } = await switchMode(cluster, mode, {
    scheduler: process.env.SCHEDULER || undefined,
    version:
      process.env.KUBE_PROXY_VERSION || (mode === 'userspace' ? USERSPACE_VERSION : undefined),
    force: isOn('FORCE'),
    progress: createProgress(),
  })
  const print = (text: string) => console.log(linesFor(process.stdout, text, '', '  ').join('\n'))
  for (const proof of proofs) print(describeProof(proof))
  const where = `kube-proxy runs in mode ${mode} on ${proofs.length} nodes`
  // Between iptables and IPVS mode everything stays; a kube-proxy of nftables mode removes it, as
  // the next one removes its tables.
  const hasLeftovers = proofs.some(({ leftovers }) => leftovers.length > 0)
  const left = `The rules of mode ${before || 'iptables'} are still there: make flush-nat removes them.`
  if (!changed) print(`${where} already; nothing was changed.`)
  else print(hasLeftovers && (before || 'iptables') !== mode ? `${where}. ${left}` : `${where}.`)
})
