import { valueAt } from './json.ts'
import type { Stored } from './store.ts'

/** A column of the table that kubectl prints for a kind. */
export interface Column<T = Stored> {
  name: string
  /** Default: `string`. */
  type?: 'string' | 'integer'
  /** Shown only by `-o wide`. */
  wide?: boolean
  cell(object: T, now: Date): string | number
}

/** Columns of the JSON form of a kind, in which dates are text. */
export function columns<T>(...own: readonly Column<T>[]): readonly Column[] {
  return own as readonly Column<unknown>[] as readonly Column[]
}

/** A column with the value at a path of the object, or a substitute for an absent or empty one. */
export function field(name: string, path: string, absent: string | number = '<none>'): Column<unknown> {
  const cell = (object: unknown) => (valueAt(object, path) as string | number | undefined) || absent
  return { name, cell, ...(typeof absent === 'number' && { type: 'integer' }) }
}

export function wide<T>(...own: readonly Column<T>[]): Column<T>[] {
  return own.map((column) => ({ ...column, wide: true }))
}

export const nameColumn = field('Name', 'metadata.name')
export const ageColumn: Column<unknown> = {
  name: 'Age',
  cell: (object, now) => ageOf(valueAt(object, 'metadata.creationTimestamp'), now),
}

/** How long ago a time was, as kubectl's AGE column prints it. */
export function ageOf(time: unknown, now: Date): string {
  return typeof time === 'string' ? humanDuration((now.getTime() - Date.parse(time)) / 1000) : '<unknown>'
}

/** A duration as kubectl prints it: `5s`, `3m12s`, `7h5m`, `2d`, `1y30d`. */
export function humanDuration(exactSeconds: number): string {
  const seconds = Math.trunc(exactSeconds)
  if (seconds < -1) return '<invalid>'
  if (seconds < 0) return '0s'
  if (seconds < 120) return `${seconds}s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 10) return pair(minutes, 'm', seconds % 60, 's')
  if (minutes < 180) return `${minutes}m`
  const hours = Math.floor(minutes / 60)
  if (hours < 8) return pair(hours, 'h', minutes % 60, 'm')
  if (hours < 48) return `${hours}h`
  const days = Math.floor(hours / 24)
  if (days < 8) return pair(days, 'd', hours % 24, 'h')
  if (days < 730) return `${days}d`
  const years = Math.floor(days / 365)
  return years < 8 ? pair(years, 'y', days % 365, 'd') : `${years}y`
}

function pair(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large}${largeUnit}` : `${large}${largeUnit}${small}${smallUnit}`
}

/** Objects as the table that kubectl prints; without headers for all but the first event of a watch. */
export function tableOf(
  columns: readonly Column[],
  objects: readonly Stored[],
  { resourceVersion, headers, whole }: { resourceVersion: string; headers: boolean; whole: boolean },
): object {
  const columnDefinitions = columns.map(({ name, type = 'string', wide }) => ({
    ...{ name, type, format: name === 'Name' ? 'name' : '', description: '', priority: wide ? 1 : 0 },
  }))
  const apiVersion = 'meta.k8s.io/v1'
  const now = new Date()
  const rows = objects.map((object) => ({
    cells: columns.map((column) => column.cell(object, now)),
    object: whole ? object : { kind: 'PartialObjectMetadata', apiVersion, metadata: object.metadata },
  }))
  const metadata = { resourceVersion }
  return { kind: 'Table', apiVersion, metadata, columnDefinitions: headers ? columnDefinitions : [], rows }
}
