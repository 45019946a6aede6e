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
  const { changed, before, proofs } = await switchMode(cluster, mode, {
    scheduler: process.env.SCHEDULER || undefined,
    version: process.env.KUBE_PROXY_VERSION || undefined,
    force: process.env.FORCE === '1',
    progress: createProgress(),
  })
  for (const proof of proofs) console.log(describeProof(proof))
  const where = `kube-proxy runs in mode ${mode} on ${proofs.length} nodes`
  const left = `What mode ${before || 'iptables'} programmed is still there: make flush-nat removes it.`
  if (!changed) console.log(`${where} already; nothing was changed.`)
  else console.log((before || 'iptables') === mode ? `${where}.` : `${where}. ${left}`)
})
