// Lab 4, LVS by hand: the checks of the steps of labs/04-lvs/lab.yaml.

import { defineLab } from '../grading/define-lab.ts'
import { schedulersUseDestinations } from './04-lvs/destination-hash.ts'
import {
  directRoutingAnswers,
  frameDestination,
  natRewritesAddresses,
  seenClient,
  tunnelAnswers,
} from './04-lvs/forwarding.ts'
import { lvsNodes } from './04-lvs/lvs-nodes.ts'
import {
  heavierShare,
  schedulersCountConnections,
  schedulersHashSources,
  schedulersTakeTurns,
} from './04-lvs/schedulers.ts'
import {
  kubeProxySparesOthers,
  requestTakesThePath,
  unseenHook,
  virtualServerAnswers,
} from './04-lvs/virtual-server.ts'

export default defineLab(4, ({ step, question }) => {
  step('stage', async (context) => {
    await lvsNodes(context)
  })
  step('virtual-server', virtualServerAnswers)
  step('hooks', requestTakesThePath)
  question('unseen-hook', unseenHook)
  step('nat', natRewritesAddresses)
  question('seen-client', seenClient)
  step('direct-routing', directRoutingAnswers)
  question('frame', frameDestination)
  step('tunnel', tunnelAnswers)
  step('turns', schedulersTakeTurns)
  question('share', heavierShare)
  step('counting', schedulersCountConnections)
  step('sources', schedulersHashSources)
  step('destinations', schedulersUseDestinations)
  step('excluded', kubeProxySparesOthers)
})
