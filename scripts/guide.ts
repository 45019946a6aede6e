// The guide in the browser:  make guide [LAB=4] [PORT=8080]

import { dirname } from 'node:path'
import { guideOnCluster } from '../cluster/cluster-lock.ts'
import { consent } from '../cluster/consent.ts'
import { kubeClient } from '../cluster/kube-client.ts'
import { kubectlPath } from '../cluster/programs.ts'
import { selectCluster } from '../cluster/select.ts'
import { labChange } from '../course/lab-bench.ts'
import { labNumber, mustRunHere, readLab } from '../grading/lab-definition.ts'
import { begunLabs } from '../grading/lab-notes.ts'
import { PageGuide } from '../guide/server/guide.ts'
import { GUIDE_PAGE, serveGuide } from '../guide/server/server.ts'
import { usualPort } from '../guide/server/usual-port.ts'
import { requestedPort, untilTerminated } from '../host/loopback-server.ts'
import { main } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'
import { joinedLine, LearnerSeat } from '../room/learner/seat.ts'
import { buildPage } from '../web/page-files.ts'

/** The default lab where none was begun. */
const FIRST_LAB = 2

await main(async () => {
  const port = requestedPort('guide')
  const asked = process.env.LAB ? labNumber(process.env.LAB) : undefined
  const first = readLab(asked ?? FIRST_LAB)
  const progress = createProgress()
  const seat = LearnerSeat.open()
  if (seat.view.state !== 'out') progress.note(joinedLine(seat.view))
  const cluster = await selectCluster(undefined, undefined, { creating: progress, lab: first })
  await consent(cluster, labChange(`run a privileged Pod on each node and work through labs`))
  await guideOnCluster(cluster, { target: 'guide', doing: "serves the guide's page" }, async () => {
    const [files] = await Promise.all([buildPage(GUIDE_PAGE), cluster.up(progress)])
    const lab = readLab(asked ?? (await begunLabs(await kubeClient(cluster)))[0] ?? FIRST_LAB)
    await mustRunHere(cluster, lab)
    const kubectl = await kubectlPath(progress)
    const guide = await PageGuide.open(cluster, lab, progress, dirname(kubectl), seat)
    const terminated = untilTerminated()
    const server = await serveGuide(guide, files, port || (await usualPort()))
    console.log(`The guide is at ${server.url}\nCtrl-C ends it; the cluster keeps your work.`)
    await terminated
    await server.close()
    await Promise.all([guide.end(), seat.end()])
  })
})
