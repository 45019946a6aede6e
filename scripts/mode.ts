import { describeProof } from '../cluster/kube-proxy/proof.ts'
import { switchMode } from '../cluster/kube-proxy/switch-mode.ts'
import { selectCluster } from '../cluster/select.ts'
import { main, UserError } from './main.ts'
import { createProgress } from './progress.ts'

await main(async () => {
  const mode = process.argv[2]
  if (mode !== 'ipvs' && mode !== 'iptables')
    throw new UserError(`"${mode ?? ''}" is no mode to switch to: run \`make ipvs\` or \`make iptables\`.`)
  const cluster = await selectCluster()
  if (!(await cluster.running())) throw new UserError(`The cluster "${cluster.name}" is not up: run \`make up\`.`)
  const { changed, proofs } = await switchMode(cluster, mode, {
    scheduler: process.env.SCHEDULER || undefined,
    force: process.env.FORCE === '1',
    progress: createProgress(),
  })
  for (const proof of proofs) console.log(describeProof(proof))
  console.log(
    changed
      ? `kube-proxy runs in mode ${mode} on ${proofs.length} nodes. The old mode's rules are still there: make flush-nat removes them.`
      : `kube-proxy runs in mode ${mode} on ${proofs.length} nodes already; nothing was changed.`,
  )
})
