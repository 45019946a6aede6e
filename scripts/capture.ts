// Writes the state of every node, and the API objects, to a folder: DIR=captures/before make
// capture
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { writeCaptureFolder } from '../cluster/capture-folder.ts'
import { kubeClient } from '../cluster/kube-client.ts'
import { runningCluster } from '../cluster/select.ts'
import { takeCapture } from '../cluster/snapshot.ts'
import { ExitCode, main, Refusal } from '../host/main.ts'

await main(async () => {
  const stamp = new Date().toISOString().slice(0, 19).replaceAll(':', '-')
  const folder = process.env.DIR || join('captures', stamp)
  if (existsSync(join(folder, 'objects.json')))
    throw new Refusal(`"${folder}" already contains a capture: choose another folder with DIR=.`)
  const cluster = await runningCluster()
  const capture = await takeCapture(cluster, await kubeClient(cluster), 'thorough')
  writeCaptureFolder(folder, capture)
  for (const { name, files, trouble } of capture.nodes)
    console.log(trouble ? `${name}: ${trouble}` : `${name}: ${[...files.keys()].join(', ')}`)
  console.log(
    `Written to ${folder}. Judge it with: node --import tsx scripts/check.ts --lab 2 --capture ${folder}`,
  )
  return capture.nodes.some(({ trouble }) => trouble) ? ExitCode.trouble : ExitCode.passed
})
