import { Refusal } from '../../dataplane/refusal.ts'
import { CLAIM_FILES } from './course-files.ts'

/** The texts of both files. */
export interface ClaimTexts {
  claims: string
  curriculum: string
}

const WIDTH = 100

/**
 * A list of YAML as the formatter writes it: on the line of its key, on the next one, or on a line
 * for each item.
 */
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

/** Both files with a claim of the next number of its part, which no step proves; else undefined. */
function withNextClaim(
  { claims, curriculum }: ClaimTexts,
  claim: string,
  claimed: string,
): ClaimTexts | undefined {
  const [, part = '', number = ''] = /^([A-Z])(\d+)$/.exec(claim) ?? []
  const last = `${part}${Number(number) - 1}`
  const entry = new RegExp(`^${last}:\\s*\\[[^\\]]*\\]\\n`, 'm').exec(claims)
  const row = new RegExp(`^\\| ${last} \\|.*\\n`, 'm').exec(curriculum)
  if (!entry || !row) return undefined
  const [proving] = entry
  const [line] = row
  return {
    claims: claims.replace(proving, () => `${proving}${claim}: []\n`),
    curriculum: curriculum.replace(line, () => `${line}| ${claim} | ${claimed} | - |\n`),
  }
}

/** `"What is claimed", by 2/sets, 3/web.`, for an author who has mistaken the claim. */
export function claimSentence(curriculum: string, claim: string): string {
  const row = new RegExp(`^\\| ${claim} \\| (.+) \\| (.+) \\|$`, 'm').exec(curriculum)
  return `"${row?.[1] ?? ''}", by ${row?.[2]?.replaceAll('`', '') ?? ''}.`
}

/**
 * What a step of a lab could prove: `C3: What is claimed` for each claim that the lab proves, and
 * the next id of each of their parts.
 */
export function claimsOfLab({ claims, curriculum }: ClaimTexts, lab: number): string[] {
  const listed = [...claims.matchAll(/^([A-Z])(\d+):\s*\[([^\]]*)\]/gm)]
  const own = listed.filter(([, , , places = '']) =>
    places.split(',').some((place) => place.trim().startsWith(`${lab}/`)),
  )
  const parts = [...new Set(own.map(([, part = '']) => part))]
  return [
    ...own.map(([, part, number]) => {
      const row = new RegExp(`^\\| ${part}${number} \\| (.+) \\| .+ \\|$`, 'm').exec(curriculum)
      return `${part}${number}: ${row?.[1] ?? ''}`
    }),
    ...parts.map((part) => `${nextClaim(claims, part)}: a new one`),
  ]
}

/** The next id of a part, C12 for C; undefined if there is no such part. */
export function nextClaim(claims: string, part: string): string | undefined {
  if (!/^[A-Z]$/.test(part)) return undefined
  const numbers = [...claims.matchAll(new RegExp(`^${part}(\\d+):`, 'gm'))].map(([, n]) =>
    Number(n),
  )
  return numbers.length === 0 ? undefined : `${part}${Math.max(...numbers) + 1}`
}

/** The claim is one of labs/claims.yaml. */
export const isClaim = (claims: string, claim: string): boolean =>
  new RegExp(`^${claim}:`, 'm').test(claims)

/**
 * The texts of both files with one more step that proves a claim; one of the next number in its
 * part is begun, with the sentence `claimed`. Pure.
 * @throws Refusal when there is no such claim, or one is begun without its sentence
 */
export function withClaimedStep(
  texts: ClaimTexts,
  order: { claim: string; place: string; after: string; claimed?: string | undefined },
): ClaimTexts {
  const { claim, place, after, claimed } = order
  const begun = isClaim(texts.claims, claim)
    ? undefined
    : withNextClaim(texts, claim, claimed ?? '')
  if (begun && claimed === undefined)
    throw new Refusal(
      `${claim} is a new claim: write its sentence into the draft, in a line "claimed: …".`,
    )
  const { claims, curriculum } = begun ?? texts
  const entry = new RegExp(`^${claim}:\\s*\\[([^\\]]*)\\]\\n`, 'm').exec(claims)
  const row = new RegExp(`^(\\| ${claim} \\| .+ \\| )(.+)( \\|)$`, 'm').exec(curriculum)
  if (!entry || !row)
    throw new Refusal(
      `CLAIM="${claim}" is not a claim of ${CLAIM_FILES.curriculum}: use the id of one, as in CLAIM=A7, or only the letter of a part, as in CLAIM=C, to begin a new one.`,
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
