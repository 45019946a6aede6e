// Lab 4, LVS by hand: the checks of the steps of labs/04-lvs/lab.yaml.

import { defineLab } from '../grading/define-lab.ts'
import { ownRequest } from '../grading/own-request.ts'
import * as answers from './04-lvs/answers.ts'
import { burstOfLblc, schedulersUseDestinations } from './04-lvs/destination-hash.ts'
import * as forwarding from './04-lvs/forwarding.ts'
import { lvsNodes } from './04-lvs/lvs-nodes.ts'
import * as schedulers from './04-lvs/schedulers.ts'
import { countedColumn, mostOfSed, shortRequestsStayAtOne } from './04-lvs/short-requests.ts'
import * as virtualServer from './04-lvs/virtual-server.ts'
import { incidentAsks, incidentRepairedBesideLvs } from './08-incidents/lab-incident.ts'

export default defineLab(4, ({ step, question }) => {
  step('stage', lvsNodes)
  step('virtual-server', virtualServer.virtualServerAnswers, {
    predict: answers.firstRequest,
    question: answers.unexpectedSource,
  })
  step('hooks', virtualServer.requestTakesThePath, {
    predict: answers.countingHooks,
    evidence: ownRequest({ from: 'node', to: 'real-server', container: 'nginx' }),
  })
  question('unseen-hook', virtualServer.unseenHook)
  step('nat', forwarding.natRewritesAddresses, { predict: answers.destinationWithNat })
  question('seen-client', forwarding.seenClient)
  step('direct-routing', forwarding.directRoutingAnswers, {
    predict: answers.destinationWithRouting,
    evidence: ownRequest({ from: 'outside', to: 'real-server', container: 'nginx' }),
  })
  question('frame', forwarding.frameDestination)
  step('tunnel', forwarding.tunnelAnswers, { predict: answers.tunnelOverhead })
  step('turns', schedulers.schedulersTakeTurns, { predict: schedulers.turnsOfHeavier })
  question('share', schedulers.heavierShare)
  step('short-requests', shortRequestsStayAtOne, {
    predict: mostOfSed,
    question: countedColumn,
  })
  step('counting', schedulers.schedulersCountConnections, { predict: schedulers.openAtHeavier })
  step('sources', schedulers.schedulersHashSources, { predict: schedulers.clientsThatStay })
  step('destinations', schedulersUseDestinations, { predict: burstOfLblc })
  step('excluded', virtualServer.kubeProxySparesOthers, { predict: answers.sparedServers })
  step('incident', incidentRepairedBesideLvs, incidentAsks)
})
