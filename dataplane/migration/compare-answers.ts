import type { NoAnswer, ProbeAnswer } from './probe-answer.ts'

/** What a change of mode does to new connections of one kind. */
export type MigrationEffect =
  /** Some or all of them no longer get an answer. */
  | 'stops'
  /** Some or all of them get an answer that they did not get before. */
  | 'starts'
  /** The endpoints see another client address. */
  | 'source'
  /** Other endpoints answer, or in other shares. */
  | 'balancing'
  /** They get no answer before or after, but fail in another way. */
  | 'failure'

/**
 * Smaller differences of a share come from the rounding of probabilities (xt_statistic counts in
 * 1/2³¹).
 */
const ROUNDING = 1e-6

const total = (shares: ReadonlyMap<string, number>): number =>
  [...shares.values()].reduce((sum, share) => sum + share, 0)

function sameShares(one: ReadonlyMap<string, number>, other: ReadonlyMap<string, number>): boolean {
  const keys = new Set([...one.keys(), ...other.keys()])
  return [...keys].every((key) => Math.abs((one.get(key) ?? 0) - (other.get(key) ?? 0)) < ROUNDING)
}

/** The effects on a probe; none if its connections fare as before. */
export function compareAnswers(before: ProbeAnswer, after: ProbeAnswer): MigrationEffect[] {
  const [first, then] = [total(before.endpoints), total(after.endpoints)]
  if (first - then > ROUNDING) return ['stops']
  if (then - first > ROUNDING) return ['starts']
  if (first < ROUNDING) return sameShares(before.none, after.none) ? [] : ['failure']
  const effects: MigrationEffect[] = []
  const seesAnother = ([endpoint, who]: [string, string]) =>
    (after.seen.get(endpoint) ?? who) !== who
  if ([...before.seen].some(seesAnother)) effects.push('source')
  if (!sameShares(before.endpoints, after.endpoints)) effects.push('balancing')
  return effects
}

const FAILURES: Record<NoAnswer, string> = {
  refused: 'refused',
  timeout: 'no answer',
  leaves: 'leaves the node unchanged',
}
const SEEN = { client: 'the client', node: 'the node', service: 'the Service' }
/** More endpoints are counted instead of listed. */
const LISTED = 4

const percent = (share: number): string => `${Number((share * 100).toFixed(1))} %`

/**
 * An answer in words: `answered by 10.244.1.5:80, 10.244.2.6:80; they see the client`, `refused`.
 */
export function describeAnswer({ endpoints, seen, none }: ProbeAnswer): string {
  const failures = [...none]
    .filter(([, share]) => share > ROUNDING)
    .map(([kind, share]) => `${FAILURES[kind]}${share < 1 - ROUNDING ? ` ${percent(share)}` : ''}`)
  if (endpoints.size === 0) return failures.join(', ')
  const shares = [...endpoints.values()]
  const isEven = Math.max(...shares) - Math.min(...shares) < ROUNDING * 10
  const listed = [...endpoints]
    .sort()
    .map(([to, share]) => (isEven ? to : `${to} ${percent(share)}`))
  const by = listed.length > LISTED ? `${listed.length} endpoints` : listed.join(', ')
  const sees = [...new Set(seen.values())]
    .map((who) => SEEN[who])
    .sort()
    .join(' or ')
  return [`answered by ${by}, from ${sees}`, ...failures].join('; ')
}
