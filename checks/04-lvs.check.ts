// Lab 4, LVS by hand: the checks of the steps of labs/04-lvs/lab.yaml.

import { defineLab } from '../grading/define-lab.ts'
import { schedulersUseDestinations } from './04-lvs/destination-hash.ts'
import * as forwarding from './04-lvs/forwarding.ts'
import { lvsNodes } from './04-lvs/lvs-nodes.ts'
import * as schedulers from './04-lvs/schedulers.ts'
import * as virtualServer from './04-lvs/virtual-server.ts'

export default defineLab(4, ({ step, question }) => {
  step('stage', lvsNodes)
  step('virtual-server', virtualServer.virtualServerAnswers)
  step('hooks', virtualServer.requestTakesThePath)
  question('unseen-hook', virtualServer.unseenHook)
  step('nat', forwarding.natRewritesAddresses)
  question('seen-client', forwarding.seenClient)
  step('direct-routing', forwarding.directRoutingAnswers)
  question('frame', forwarding.frameDestination)
  step('tunnel', forwarding.tunnelAnswers)
  step('turns', schedulers.schedulersTakeTurns)
  question('share', schedulers.heavierShare)
  step('counting', schedulers.schedulersCountConnections)
  step('sources', schedulers.schedulersHashSources)
  step('destinations', schedulersUseDestinations)
  step('excluded', virtualServer.kubeProxySparesOthers)
})
