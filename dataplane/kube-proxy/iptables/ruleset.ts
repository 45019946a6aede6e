import type { Ruleset } from '../../iptables-save.ts'
import type { Proxier } from '../proxier.ts'
import { prependJumps, ruleset, TableBuilder } from '../ruleset-builder.ts'
import { writeExternalServicePort } from './external-chains.ts'
import { iptablesJumps, writeNodePortsTail, writeStaticChains } from './static-chains.ts'
import { writeXlbServicePort } from './xlb-chains.ts'

/** All that kube-proxy's iptables mode writes in one family. */
export function iptablesRuleset(proxier: Proxier): Ruleset {
  const filter = new TableBuilder('filter')
  const mangle = new TableBuilder('mangle')
  const nat = new TableBuilder('nat')
  // Deleting these three empty chains tells kube-proxy that somebody flushed the tables.
  for (const table of [filter, mangle, nat]) table.chain('KUBE-PROXY-CANARY')
  prependJumps({ filter, nat }, iptablesJumps(proxier))
  writeStaticChains(nat, filter, proxier)
  const writePort = proxier.features.serviceChains === 'external' ? writeExternalServicePort : writeXlbServicePort
  for (const port of proxier.ports) writePort(nat, filter, proxier, port)
  writeNodePortsTail(nat, proxier)
  return ruleset({ filter, mangle, nat })
}
