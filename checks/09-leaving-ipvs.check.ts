// Lab 9, leaving IPVS: the checks of the steps of labs/09-leaving-ipvs/lab.yaml.

import type { Check } from '../grading/check-context.ts'
import { defineLab } from '../grading/define-lab.ts'
import { incidentAsks, incidentRepaired } from './08-incidents/lab-incident.ts'
import * as cleanUp from './09-leaving-ipvs/clean-up.ts'
import { nothingLostAnywhere } from './09-leaving-ipvs/clients.ts'
import * as inventory from './09-leaving-ipvs/inventory.ts'
import { cleanedByKubeProxy, leftByCleanup } from './09-leaving-ipvs/kube-proxy-cleanup.ts'
import { changeFromIpvs, keepChange } from './09-leaving-ipvs/migration.ts'
import * as nodes from './09-leaving-ipvs/nodes.ts'
import * as second from './09-leaving-ipvs/second-kube-proxy.ts'

/**
 * Its incidents are about what IPVS mode leaves: a cluster that starts in iptables mode has none,
 * which its capture shows, too.
 */
const incidentAfterIpvs: Check = (context) => {
  changeFromIpvs(context)
  return incidentRepaired(context)
}

export default defineLab(9, ({ step, liveStep, question, observe }) => {
  observe(keepChange)
  step('traffic', inventory.trafficFlows, { predict: inventory.stockWithoutLocalPod })
  question('inventory', inventory.servicesThatStop)
  step('mend', inventory.nothingWillStop, { predict: inventory.uncorrectedClient })
  step('second', second.secondIsPrepared)
  step('handover', cleanUp.handoverWaits, { predict: cleanUp.withoutRules })
  step('canary', nodes.oneNodeRunsNew, {
    predict: nodes.leftOnCanary,
    question: nodes.kindsOnCanary,
  })
  step('back', nodes.canaryIsBack, { predict: nodes.gapOnTheWayBack })
  step('forward', nodes.nodeByNode, { predict: nodes.keptAtTheChange })
  step('first', second.onlyOneKubeProxy)
  question('source', cleanUp.sourceOfNode)
  liveStep('ended', cleanUp.nothingNeedsIpvs, { predict: cleanUp.connectionsThatNeedIpvs })
  step('clean', cleanUp.onlyNewModeIsLeft)
  step('lossless', cleanUp.onlyNewModeIsLeft, { evidence: nothingLostAnywhere })
  step('cleanup', cleanedByKubeProxy, { predict: leftByCleanup })
  step('incident', incidentAfterIpvs, incidentAsks)
})
