import { flushNat } from '../cluster/kube-proxy/flush-nat.ts'
import { runningCluster } from '../cluster/select.ts'
import { main } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'
import { linesFor } from '../host/wrap-lines.ts'

await main(async () => {
  const cluster = await runningCluster()
  for (const { node, mode, removed, kept } of await flushNat(cluster, {
    progress: createProgress(),
  })) {
    const other = { ipvs: 'iptables', iptables: 'ipvs', nftables: 'other modes' }[mode]
    console.log(
      removed.length > 0
        ? `${node} runs ${mode}; removed leftovers of ${other}:`
        : `${node} runs ${mode}; there are no leftovers of ${other}.`,
    )
    for (const line of [...removed, ...kept])
      console.log(linesFor(process.stdout, line, '  ', '    ').join('\n'))
  }
})
