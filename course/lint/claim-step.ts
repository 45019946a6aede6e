import { Refusal } from '../../dataplane/refusal.ts'

/** Where the claims are, for programs and for readers. */
export const CLAIM_FILES = { claims: 'labs/claims.yaml', curriculum: 'labs/CURRICULUM.md' } as const

const WIDTH = 100

/** A list of YAML as the formatter writes it: on the line of its key, on the next one, or on a line for each item. */
function listLines(key: string, items: readonly string[]): string {
  const list = `[${items.join(', ')}]`
  if (`${key}: ${list}`.length <= WIDTH) return `${key}: ${list}\n`
  if (`  ${list}`.length <= WIDTH) return `${key}:\n  ${list}\n`
  return `${key}:\n  [\n${items.map((item) => `    ${item},\n`).join('')}  ]\n`
}

/** The steps with one more, behind the one that it follows in its lab if that is there. */
function withPlace(places: readonly string[], place: string, after: string): string[] {
  const at = places.indexOf(after)
  return at === -1 ? [...places, place] : places.toSpliced(at + 1, 0, place)
}

/**
 * The texts of both files with one more step that proves a claim. Pure.
 * @throws Refusal when there is no such claim
 */
export function withClaimedStep(
  texts: { claims: string; curriculum: string },
  { claim, place, after }: { claim: string; place: string; after: string },
): { claims: string; curriculum: string } {
  const { claims, curriculum } = texts
  const entry = new RegExp(`^${claim}:\\s*\\[([^\\]]*)\\]\\n`, 'm').exec(claims)
  const row = new RegExp(`^(\\| ${claim} \\| .+ \\| )(.+)( \\|)$`, 'm').exec(curriculum)
  if (!entry || !row)
    throw new Refusal(
      `CLAIM="${claim}" is not a claim of ${CLAIM_FILES.curriculum}: use the id of one, as in CLAIM=A7, or omit it and write a new one.`,
    )
  const [all = '', listed = ''] = entry
  const places = listed.split(',').flatMap((one) => one.trim() || [])
  const proving = withPlace(places, place, after)
  const [line = '', start = '', , end = ''] = row
  return {
    claims: claims.replace(all, () => listLines(claim, proving)),
    curriculum: curriculum.replace(
      line,
      () => `${start}${proving.map((one) => `\`${one}\``).join(', ')}${end}`,
    ),
  }
}
