import { kubeClient } from '../cluster/kube-client.ts'
import { selectCluster } from '../cluster/select.ts'
import { deployWeb } from './deploy-web.ts'
import { main } from './main.ts'
import { ownVariant } from './own-variant.ts'
import { createProgress } from './progress.ts'

await main(async () => {
  const client = await kubeClient(await selectCluster())
  for (const line of await deployWeb(client, createProgress(), await ownVariant(client))) console.log(line)
})
