import type { GradedStep } from '../result.ts'

/** Why a step has its verdict, for its learner: what was expected, what is there, and what to do next. */
export function explained({ verdict, reason, finding }: GradedStep): string {
  if (verdict === 'passed') return 'passed'
  if (!finding) return `${verdict}: ${reason ?? 'no reason was given'}`
  const { node, look, expected, actual, why, hint } = finding
  return [
    ...(node === undefined ? [] : [`node:     ${node}`]),
    `expected: ${expected}`,
    `found:    ${actual}`,
    `look:     ${look}`,
    `why:      ${why}`,
    `next:     ${hint}`,
  ].join('\n')
}
