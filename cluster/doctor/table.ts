import wrapAnsi from 'wrap-ansi'
import { chooseKernel } from './choose-kernel.ts'
import type { Facts, LabNeeds } from './facts.ts'
import { type DoctorResult, diagnose, type LabVerdict, type Place, type Severity } from './judge.ts'

/** A line of `make doctor`: what it is about (only on the first of several), what was looked at, the result, and what fixes it. */
export interface TableRow extends DoctorResult {
  of: string
}

/** What the user set: the values of CLUSTER and KERNEL. */
export interface Wishes {
  cluster?: string | undefined
  kernel?: string | undefined
}

/** The whole table, with a row for each lab that names where `make lab-N` runs it now, and why not elsewhere. Pure. */
export function doctorRows(facts: Facts, wishes: Wishes = {}): { rows: TableRow[]; able: number[] } {
  const { machine, embedded, kind, labs } = diagnose(facts)
  const about = (of: string, results: DoctorResult[]) =>
    results.map((result, index) => ({ ...result, of: index === 0 ? of : '' }))
  const labRows = labs.map((verdict, index) => labRow(verdict, chosenPlace(verdict, facts, wishes, facts.labs[index])))
  return {
    rows: [...about('machine', machine), ...about('embedded', embedded), ...about('kind', kind), ...labRows],
    able: labs.filter((_, index) => labRows[index]?.severity === 'fine').map(({ number }) => number),
  }
}

/** Where `make lab-N` without a cluster runs a lab: on kind where an engine responds, else on the kernel that chooseKernel takes. */
function chosenPlace(
  { places }: LabVerdict,
  facts: Facts,
  { cluster, kernel }: Wishes,
  lab?: LabNeeds,
): Place | undefined {
  const named = (name: Place['name']) => places.find((place) => place.name === name)
  const kind = named('kind')
  if (cluster === 'kind') return kind
  if ((cluster ?? 'auto') === 'auto' && facts.kind.engine && kind?.reason === undefined) return kind
  const choice = chooseKernel(kernel, facts.embedded, lab)
  return named('kernel' in choice ? `KERNEL=${choice.kernel}` : kernel === 'uml' ? 'KERNEL=uml' : 'KERNEL=host')
}

/** Why a lab can't run at places. What no lab can run on has a row of its own, which tells why. */
function whyNot(places: readonly Place[]): string[] {
  const unusable = places.filter(({ reason, forAll }) => reason !== undefined && forAll).map(({ name }) => name)
  const others = places.flatMap(({ name, reason, forAll }) => (reason && !forAll ? [`${name}: ${reason}`] : []))
  return [...others, ...(unusable.length > 0 ? [`${unusable.join(' and ')} can't be used, see above`] : [])]
}

function labRow({ number, places }: LabVerdict, chosen: Place | undefined): TableRow {
  const of = `lab ${number}`
  const able = places.filter(({ reason }) => reason === undefined)
  const others = able.filter((place) => place !== chosen)
  if (chosen === undefined || able.length === 0)
    return { of, what: 'nowhere yet', severity: 'fault', detail: whyNot(places).join('; ') }
  if (chosen.reason !== undefined) {
    const reason = chosen.forAll ? "can't be used, see above" : chosen.reason
    const names = others.map(({ name }) => name).join(' and ')
    return { of, what: chosen.name, severity: 'fault', detail: `${reason}; ${names} can run it` }
  }
  const without = ({ stepsLack }: Place) =>
    stepsLack.length > 0 ? [`without the steps that need ${stepsLack.join(' and ')}`] : []
  const or = others.map((place) => `or ${[place.name, ...without(place)].join(' ')}`)
  const not = whyNot(places.filter(({ forAll }) => !forAll))
  return { of, what: chosen.name, severity: 'fine', detail: [...without(chosen), ...or, ...not].join('; ') }
}

const marks: Record<Severity, string> = { fine: '✓', note: '•', warning: '!', fault: '✗' }
const WIDTH = 80

/** The rows as text of at most 80 columns, or fewer on a narrow terminal. `mark` may colour the sign at the beginning of a line. */
export function layoutRows(
  rows: readonly TableRow[],
  mark = (sign: string, _weight: Severity) => sign,
  columns = WIDTH,
): string[] {
  const width = Math.max(40, Math.min(columns, WIDTH))
  const column = (key: 'of' | 'what') => Math.max(...rows.map((row) => row[key].length)) + 2
  const [first, second] = [column('of'), column('what')]
  const wrapped = (text: string, left: number) =>
    wrapAnsi(text, width - left)
      .split('\n')
      .map((line) => ' '.repeat(left) + line)
  const head = `   ${'for'.padEnd(first)}${'what'.padEnd(second)}result (→ what fixes it)`
  const body = rows.flatMap(({ of, what, severity, detail, fix }) => {
    const [line = '', ...more] = wrapped(detail, 3 + first + second)
    const start = ` ${mark(marks[severity], severity)} ${of.padEnd(first)}${what.padEnd(second)}${line.trimStart()}`
    // Further to the left, so that a command is seldom cut in two.
    return [start.trimEnd(), ...more, ...(fix === undefined ? [] : wrapped(`→ ${fix}`, 3 + first))]
  })
  return [head, ...body]
}
