// Lab 4, LVS by hand: the checks of the steps of labs/04-lvs/lab.yaml.

import { defineLab } from '../grading/define-lab.ts'
import { ownRequest } from '../grading/own-request.ts'
import * as answers from './04-lvs/answers.ts'
import { burstOfLblc, schedulersUseDestinations } from './04-lvs/destination-hash.ts'
import * as forwarding from './04-lvs/forwarding.ts'
import { lvsNodes, PORT, REAL_PORT, SHARED_VIP, VIP } from './04-lvs/lvs-nodes.ts'
import * as schedulers from './04-lvs/schedulers.ts'
import {
  countedColumn,
  mostOfSed,
  SHORT_PORT,
  shortRequestsStayAtOne,
} from './04-lvs/short-requests.ts'
import * as virtualServer from './04-lvs/virtual-server.ts'
import { incidentAsks, incidentRepairedBesideLvs } from './08-incidents/lab-incident.ts'

/**
 * Evidence of a learner's own request to a virtual server, in the log of the real server that got
 * it. With NAT its client is the director, a node; otherwise the machine outside, as which it was
 * sent.
 */
const requestThrough = (from: 'node' | 'outside', host: string) =>
  ownRequest({ from, host, to: 'real-server', container: 'nginx' })

export default defineLab(4, ({ step, question }) => {
  step('stage', lvsNodes)
  step('virtual-server', virtualServer.virtualServerAnswers, {
    predict: answers.firstRequest,
    question: answers.unexpectedSource,
  })
  step('hooks', virtualServer.requestTakesThePath, {
    predict: answers.countingHooks,
    evidence: requestThrough('node', `${VIP}:${REAL_PORT.masq}`),
  })
  question('unseen-hook', virtualServer.unseenHook)
  step('nat', forwarding.natRewritesAddresses, { predict: answers.destinationWithNat })
  question('seen-client', forwarding.seenClient)
  step('direct-routing', forwarding.directRoutingAnswers, {
    predict: answers.destinationWithRouting,
    evidence: requestThrough('outside', `${SHARED_VIP}:${REAL_PORT.route}`),
  })
  question('frame', forwarding.frameDestination)
  step('tunnel', forwarding.tunnelAnswers, {
    predict: answers.tunnelOverhead,
    evidence: requestThrough('outside', `${SHARED_VIP}:${REAL_PORT.tunnel}`),
  })
  step('turns', schedulers.schedulersTakeTurns, {
    predict: schedulers.turnsOfHeavier,
    evidence: requestThrough('node', `${VIP}:${PORT.rr}`),
  })
  question('share', schedulers.heavierShare)
  step('short-requests', shortRequestsStayAtOne, {
    predict: mostOfSed,
    question: countedColumn,
    evidence: requestThrough('node', `${VIP}:${SHORT_PORT.sed}`),
  })
  step('counting', schedulers.schedulersCountConnections, { predict: schedulers.openAtHeavier })
  step('sources', schedulers.schedulersHashSources, { predict: schedulers.clientsThatStay })
  step('destinations', schedulersUseDestinations, { predict: burstOfLblc })
  step('excluded', virtualServer.kubeProxySparesOthers, { predict: answers.sparedServers })
  step('incident', incidentRepairedBesideLvs, incidentAsks)
})
