import { quote } from 'zx/core'
import { kubectlPath } from '../cluster/kubectl.ts'
import { selectCluster } from '../cluster/select.ts'
import { main } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'

await main(async () => {
  const cluster = await selectCluster()
  const kubectl = await kubectlPath(createProgress())
  console.log(`export KUBECONFIG=${quote(cluster.kubeconfig)}`)
  console.log(`export PATH=${quote(kubectl.folder)}:"$PATH"`)
})
