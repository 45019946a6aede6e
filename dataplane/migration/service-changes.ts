import { groupBy } from '../collections.ts'
import { printEndpoint } from '../ip-address.ts'
import { causeOf } from './causes.ts'
import { describeAnswer, type MigrationEffect } from './compare-answers.ts'
import type { MigrationSide, ProbeChange } from './compare-nodes.ts'
import type { ServiceChange } from './report-shape.ts'

/** The worst first. */
const EFFECTS: readonly MigrationEffect[] = ['stops', 'starts', 'source', 'balancing', 'failure']

/** Groups the changes of all nodes by effect, Service and cause, the worst first. */
export function serviceChanges(
  changes: readonly ProbeChange[],
  from: MigrationSide,
  to: MigrationSide,
): ServiceChange[] {
  const serviceOf = ({ probe: { port } }: ProbeChange) => port?.name.split(':')[0] ?? null
  const groups = groupBy(changes, (change) =>
    JSON.stringify([change.effect, serviceOf(change), change.cause]),
  )
  return [...groups.values()]
    .map((alike): ServiceChange => {
      const [first] = alike as [ProbeChange]
      const { field, modes, advice } = causeOf(first.cause)
      return {
        effect: first.effect,
        service: serviceOf(first),
        cause: first.cause,
        field,
        before: modes[from.mode] ?? '',
        after: modes[to.mode] ?? '',
        advice,
        calls: callsOf(alike),
      }
    })
    .sort((one, other) => EFFECTS.indexOf(one.effect) - EFFECTS.indexOf(other.effect))
}

/**
 * The same call with the same result on several nodes is one; a node port is the same call on each
 * node's own address.
 */
function callsOf(changes: readonly ProbeChange[]): ServiceChange['calls'] {
  const calls = groupBy(changes, ({ probe: { client, target, packet }, before, after }) => {
    const called = target.startsWith('node port') ? '' : packet.destination
    const results = [describeAnswer(before), describeAnswer(after)]
    return JSON.stringify([client, target, called, packet.port, packet.protocol, ...results])
  })
  return [...calls.values()].map((alike) => {
    const [{ probe, before, after }] = alike as [ProbeChange]
    const { port, protocol } = probe.packet
    const addresses = alike.map(({ probe }) => printEndpoint(probe.packet.destination, port))
    return {
      client: probe.client,
      target: probe.target,
      to: [...new Set(addresses)].sort(),
      protocol,
      nodes: [...new Set(alike.map(({ node }) => node))],
      before: describeAnswer(before),
      after: describeAnswer(after),
      because: [...new Set([...before.because, ...after.because])],
    }
  })
}
