import wrapAnsi from 'wrap-ansi'
import { chooseKernel } from './choose-kernel.ts'
import type { Facts, LabNeeds } from './facts.ts'
import { type DoctorResult, diagnose, type LabVerdict, type Place, type Weight } from './judge.ts'

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
    able: labs.filter((_, index) => labRows[index]?.weight === 'fine').map(({ number }) => number),
  }
}

/** Where `make lab-N` without a cluster runs a lab: on kind where an engine responds, else on the kernel that chooseKernel takes. */
function chosenPlace(
  { places }: LabVerdict,
  facts: Facts,
  { cluster, kernel }: Wishes,
  lab?: LabNeeds,
): Place | string {
  const named = (name: string) => places.find((place) => place.name === name) ?? ''
  const mayBeKind = cluster === 'kind' || ((cluster ?? 'auto') === 'auto' && facts.kind.engine !== undefined)
  const kind = places.find((place) => place.cluster === 'kind' && place.reason === undefined)
  if (mayBeKind && (kind || cluster === 'kind')) return kind ?? named('kind')
  const choice = chooseKernel(kernel, facts.embedded, lab)
  return 'refusal' in choice ? choice.refusal : named(`KERNEL=${choice.kernel}`)
}

function labRow({ number, places }: LabVerdict, chosen: Place | string): TableRow {
  const of = `lab ${number}`
  if (typeof chosen === 'string') return { of, what: 'nowhere yet', weight: 'fault', detail: chosen }
  const others = places.filter((place) => place !== chosen)
  const able = others.filter(({ reason }) => reason === undefined).map(({ name }) => name)
  const without = [chosen, ...others]
    .filter(({ reason, stepsLack }) => reason === undefined && stepsLack.length > 0)
    .map(({ name, stepsLack }) => `${name}: without the steps that need ${stepsLack.join(' and ')}`)
  if (chosen.reason === undefined) {
    // What no lab can run on has a row of its own with the reason.
    const not = others.flatMap(({ name, reason, forAll }) => (reason && !forAll ? [`not ${name}: ${reason}`] : []))
    const or = able.length > 0 ? [`or ${able.join(', ')}`] : []
    return { of, what: chosen.name, weight: 'fine', detail: [...or, ...not, ...without].join('; ') }
  }
  if (able.length > 0) {
    const detail = `${chosen.name}: ${chosen.reason}; ${able.join(' and ')} can`
    return { of, what: 'not as set', weight: 'fault', detail }
  }
  const reasons = places.map(({ name, reason }) => `${name}: ${reason}`)
  return { of, what: 'nowhere yet', weight: 'fault', detail: reasons.join('; ') }
}

const marks: Record<Weight, string> = { fine: '✓', note: '•', warning: '!', fault: '✗' }
const WIDTH = 80

/** The rows as text of at most 80 columns. `mark` may colour the sign at the beginning of a line. */
export function layoutRows(rows: readonly TableRow[], mark = (sign: string, _weight: Weight) => sign): string[] {
  const column = (key: 'of' | 'what') => Math.max(...rows.map((row) => row[key].length)) + 2
  const [first, second] = [column('of'), column('what')]
  const indent = ' '.repeat(3 + first + second)
  const head = `   ${'for'.padEnd(first)}${'what'.padEnd(second)}result (→ what fixes it)`
  const body = rows.flatMap(({ of, what, weight, detail, mend }) => {
    const wrapped = (text: string) => wrapAnsi(text, WIDTH - indent.length).split('\n')
    const [line = '', ...more] = wrapped(detail)
    const fix = mend === undefined ? [] : wrapped(`→ ${mend}`)
    return [
      ` ${mark(marks[weight], weight)} ${of.padEnd(first)}${what.padEnd(second)}${line}`.trimEnd(),
      ...[...more, ...fix].map((text) => indent + text),
    ]
  })
  return [head, ...body]
}
