import { flushNat } from '../cluster/kube-proxy/flush-nat.ts'
import { selectCluster } from '../cluster/select.ts'
import { main, UserError } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'

await main(async () => {
  const cluster = await selectCluster()
  if (!(await cluster.running())) throw new UserError(`The cluster "${cluster.name}" is not up: run \`make up\`.`)
  for (const { node, mode, removed, kept } of await flushNat(cluster, { progress: createProgress() })) {
    const other = { ipvs: 'iptables', iptables: 'ipvs', nftables: 'other modes' }[mode]
    console.log(
      removed.length > 0
        ? `${node} runs ${mode}; removed what ${other} left:`
        : `${node} runs ${mode}; ${other} left nothing to remove.`,
    )
    for (const line of [...removed, ...kept]) console.log(`  ${line}`)
  }
})
