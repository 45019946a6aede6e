// Lab 11: what its experiments leave behind.

import type { CheckContext } from '../../grading/check-context.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import { everythingAsPredicted } from '../01-iptables/service-chains.ts'
import { expectBothZones } from './distribution.ts'
import { expectDistribution } from './service-fields.ts'
import { zoneClients } from './zone-clients.ts'

/**
 * No field of the lab on web, Pods in both zones, no rule of the learner, and every node as
 * predicted.
 */
export function experimentsAreOver(context: CheckContext): void {
  const clients = zoneClients(context)
  expectDistribution(context, clients.service, [undefined])
  expectBothZones(context, clients)
  expectNodes(context.nodes).noRuleWhere(
    ({ spec }) => /--comment "?lab-11(?!\d)/.test(spec),
    'iptables-save | grep lab-11',
    'no rule with a comment that begins with lab-11',
    { hint: 'Delete it: iptables -D in place of -I, with the table of -t.' },
  )
  everythingAsPredicted(context)
}
