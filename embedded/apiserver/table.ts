import { jsonAt } from './json.ts'
import type { Stored } from './store.ts'

/**
 * What a column shows of an object in its JSON form, in which dates are text: the value at a path,
 * or a function's result.
 */
type Cell<T> = string | ((object: T, now: Date) => string | number)

/** A column of the table that kubectl prints for a kind. */
export interface Column {
  name: string
  /** Shown only by `-o wide`. */
  wide: boolean
  cell(object: Stored, now: Date): string | number
}

/** Columns by their names. */
export function columns<T>(cells: Readonly<Record<string, Cell<T> | { wide: Cell<T> }>>): Column[] {
  return Object.entries(cells).map(([name, value]) => {
    const isWide = typeof value === 'object'
    const cell = isWide ? value.wide : value
    return {
      name,
      wide: isWide,
      cell: (typeof cell === 'string' ? or('<none>', cell) : cell) as Column['cell'],
    }
  })
}

/** Columns that only `-o wide` shows. */
export function wide<T>(
  cells: Readonly<Record<string, Cell<T>>>,
): Record<string, { wide: Cell<T> }> {
  return Object.fromEntries(Object.entries(cells).map(([name, cell]) => [name, { wide: cell }]))
}

/** The value at a path of an object, or a substitute for an absent or empty one. */
export function or(absent: string | number, path: string): (object: unknown) => string | number {
  return (object) => (jsonAt(object, path) as string | number | undefined) || absent
}

/** How long ago a time was, as kubectl prints it: `5s`, `3m12s`, `7h5m`, `20d`. */
export function ageOf(time: unknown, now: Date): string {
  if (typeof time !== 'string') return '<unknown>'
  const seconds = Math.trunc((now.getTime() - Date.parse(time)) / 1000)
  if (seconds < -1) return '<invalid>'
  if (seconds < 120) return `${Math.max(0, seconds)}s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 10) return pair(minutes, 'm', seconds % 60, 's')
  if (minutes < 180) return `${minutes}m`
  const hours = Math.floor(minutes / 60)
  if (hours < 8) return pair(hours, 'h', minutes % 60, 'm')
  if (hours < 48) return `${hours}h`
  const days = Math.floor(hours / 24)
  return days < 8 ? pair(days, 'd', hours % 24, 'h') : `${days}d`
}

function pair(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large}${largeUnit}` : `${large}${largeUnit}${small}${smallUnit}`
}

// The columns of every kind.
export const Name = 'metadata.name'
export const Age = (object: unknown, now: Date) =>
  ageOf(jsonAt(object, 'metadata.creationTimestamp'), now)

/**
 * Objects as the table that kubectl prints; without headers for all but the first event of a watch.
 */
export function tableOf(
  columns: readonly Column[],
  objects: readonly Stored[],
  {
    resourceVersion,
    headers,
    whole,
  }: { resourceVersion: string; headers: boolean; whole: boolean },
): object {
  const columnDefinitions = columns.map(({ name, wide }) => ({
    name,
    type: 'string',
    format: name === 'Name' ? 'name' : '',
    description: '',
    priority: wide ? 1 : 0,
  }))
  const apiVersion = 'meta.k8s.io/v1'
  const now = new Date()
  const rows = objects.map((object) => ({
    cells: columns.map((column) => column.cell(object, now)),
    object: whole
      ? object
      : { kind: 'PartialObjectMetadata', apiVersion, metadata: object.metadata },
  }))
  const metadata = { resourceVersion }
  return {
    kind: 'Table',
    apiVersion,
    metadata,
    columnDefinitions: headers ? columnDefinitions : [],
    rows,
  }
}
