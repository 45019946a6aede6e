import { chalk } from 'zx/core'
import { requireKnownKernel } from '../cluster/doctor/choose.ts'
import { gatherFacts } from '../cluster/doctor/gather.ts'
import type { Severity } from '../cluster/doctor/result.ts'
import { doctorRows, layoutRows, noneAble } from '../cluster/doctor/table.ts'
import { containerEngine } from '../cluster/kind/engine.ts'
import { KindCluster } from '../cluster/kind.ts'
import { requireKnownCluster } from '../cluster/select.ts'
import { listLabs, readLab } from '../grading/lab-definition.ts'
import { clusterName, offlineRoot } from '../host/layout.ts'
import { ExitCode, main } from '../host/main.ts'

const colours: Record<Severity, (sign: string) => string> = {
  fine: chalk.green,
  note: String,
  warning: chalk.yellow,
  fault: chalk.red,
}

await main(async () => {
  const { KERNEL: kernel, CLUSTER: cluster } = process.env
  if (cluster) requireKnownCluster(cluster)
  requireKnownKernel(kernel)
  const labs = listLabs().map(({ number }) => readLab(number))
  const engine = await containerEngine()
  const exists = engine !== undefined && (await new KindCluster(clusterName(), engine).exists())
  const facts = await gatherFacts(clusterName(), engine, { kernel: true, exists })
  const settings = { kernel, cluster: cluster || (offlineRoot ? 'embedded' : 'auto') }
  const { rows, able } = doctorRows(facts, labs, settings)
  const lines = layoutRows(
    rows,
    (sign, severity) => colours[severity](sign),
    process.stdout.columns,
  )
  console.log(lines.join('\n'))
  if (able.length === 0) {
    console.log(`\n${noneAble(settings, doctorRows(facts, labs).able)}`)
    return ExitCode.trouble
  }
  const everywhere = able.length === labs.length
  console.log(
    `\n${everywhere ? 'Every lab' : 'Not every lab'} can run here. Next: make lab-${able[0]}`,
  )
  return ExitCode.passed
})
