import wrapAnsi from 'wrap-ansi'
import { chooseKernel, type KernelPlace, placesFor, UNMEASURABLE } from './choose.ts'
import type { Facts, LabNeeds } from './facts.ts'
import { diagnose } from './judge.ts'
import type { DoctorResult, Severity } from './result.ts'

/**
 * A line of `make doctor`: what it is about (only on the first of several), what was looked at, the
 * result, and what fixes it.
 */
export interface TableRow extends DoctorResult {
  of: string
}

/** What the user set: the values of CLUSTER and KERNEL. */
export interface RequestedCluster {
  cluster?: string | undefined
  kernel?: string | undefined
}

/**
 * The whole table, with a row for each lab that names where `make lab-N` runs it now, and why not
 * elsewhere; and the numbers of the labs that can run. Pure.
 */
export function doctorRows(
  facts: Facts,
  labs: readonly LabNeeds[],
  requested: RequestedCluster = {},
): { rows: TableRow[]; able: number[] } {
  const rows = Object.entries(diagnose(facts)).flatMap(([of, results]: [string, DoctorResult[]]) =>
    results.map((result, index) => ({ ...result, of: index === 0 ? of : '' })),
  )
  const labRows = labs.map((lab) => labRow(lab, facts, requested))
  const able = labs
    .filter((_, index) => labRows[index]?.severity !== 'fault')
    .map(({ number }) => number)
  return { rows: [...rows, ...labRows], able }
}

/**
 * Where `make lab-N` without a cluster runs a lab: on kind where an engine responds, else on the
 * kernel that chooseKernel takes.
 */
function chosenPlace(
  places: readonly KernelPlace[],
  lab: LabNeeds,
  facts: Facts,
  requested: RequestedCluster,
): KernelPlace | undefined {
  const { cluster = 'auto', kernel } = requested
  const named = (name: KernelPlace['name']) => places.find((place) => place.name === name)
  const kind = named('kind')
  if (cluster === 'kind' || (cluster === 'auto' && facts.kind.engine && kind?.reason === undefined))
    return kind
  const choice = chooseKernel(kernel, facts.embedded, lab)
  return named(
    'kernel' in choice
      ? `KERNEL=${choice.kernel}`
      : kernel === 'uml'
        ? 'KERNEL=uml'
        : 'KERNEL=host',
  )
}

/** Why a lab can't run at places. What no lab can run on has a row of its own, which tells why. */
function whyNot(places: readonly KernelPlace[]): string[] {
  const unusable = places
    .filter(({ reason, forAll }) => reason !== undefined && forAll)
    .map(({ name }) => name)
  const others = places.flatMap(({ name, reason, forAll }) =>
    reason && !forAll ? [`${name}: ${reason}`] : [],
  )
  return [
    ...others,
    ...(unusable.length > 0 ? [`${unusable.join(' and ')} can't be used, see above`] : []),
  ]
}

function labRow(lab: LabNeeds, facts: Facts, requested: RequestedCluster): TableRow {
  const of = `lab ${lab.number}`
  const places = placesFor(lab, facts)
  const [, context] = /^context:(.+)/.exec(requested.cluster ?? '') ?? []
  if (context !== undefined && places.every(({ reason }) => reason !== UNMEASURABLE))
    return {
      of,
      what: 'context',
      severity: 'note',
      detail: `"${context}", which is not examined here`,
    }
  const chosen = chosenPlace(places, lab, facts, requested)
  const able = places.filter(({ reason }) => reason === undefined)
  const others = able.filter((place) => place !== chosen)
  if (chosen === undefined || able.length === 0) {
    const [reason, ...more] = new Set(places.map((place) => place.reason))
    const detail = reason !== undefined && more.length === 0 ? reason : whyNot(places).join('; ')
    return { of, what: 'nowhere yet', severity: 'fault', detail }
  }
  if (chosen.reason !== undefined) {
    const reason = chosen.forAll ? "can't be used, see above" : chosen.reason
    const names = others.map(({ name }) => name).join(' and ')
    return { of, what: chosen.name, severity: 'fault', detail: `${reason}; ${names} can run it` }
  }
  const limits = ({ unknown, stepsLack }: KernelPlace) => [
    ...(unknown.length > 0
      ? [`if its kernel has ${unknown.join(' and ')}, which is not known yet`]
      : []),
    ...(stepsLack.length > 0 ? [`without the steps that need ${stepsLack.join(' and ')}`] : []),
  ]
  const or = others.map((place) => ['or', place.name, ...limits(place)].join(' '))
  const not = whyNot(places.filter(({ forAll }) => !forAll))
  const severity = chosen.unknown.length > 0 ? 'note' : 'fine'
  return { of, what: chosen.name, severity, detail: [...limits(chosen), ...or, ...not].join('; ') }
}

/**
 * The sentence for a machine where no lab can run as requested; `otherwise` are those that could
 * without the request.
 */
export function noneAble(
  { cluster, kernel }: RequestedCluster,
  otherwise: readonly number[],
): string {
  const fix = 'fix the lines marked with ✗ above'
  const set = [
    ...(cluster && cluster !== 'auto' ? [`CLUSTER="${cluster}"`] : []),
    ...(kernel && kernel !== 'auto' ? [`KERNEL="${kernel}"`] : []),
  ].join(' ')
  const [first] = otherwise
  if (set === '' || first === undefined) return `No lab can run here yet: ${fix}.`
  return `No lab can run with ${set} yet: ${fix}, or leave it out: make lab-${first}`
}

const marks: Record<Severity, string> = { fine: '✓', note: '•', warning: '!', fault: '✗' }
const WIDTH = 80

/**
 * The rows as text of at most 80 columns, or fewer on a narrow terminal. `mark` may colour the sign
 * at the beginning of a line.
 */
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
