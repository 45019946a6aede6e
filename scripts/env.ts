import { kubectlPath } from '../cluster/programs.ts'
import { selectCluster } from '../cluster/select.ts'
import { main } from '../host/main.ts'
import { printResult } from '../host/output.ts'
import { createProgress } from '../host/progress.ts'
import { shellWord } from '../host/shell-word.ts'

await main(async () => {
  const cluster = await selectCluster()
  const kubectl = await kubectlPath(createProgress())
  const lines = [
    `export KUBECONFIG=${shellWord(cluster.kubeconfig)}`,
    `export PATH=${shellWord(kubectl.folder)}:"$PATH"`,
  ]
  printResult({ stdout: `${lines.join('\n')}\n`, stderr: '' })
})
