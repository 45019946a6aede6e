import { ageOf } from './human-duration.ts'
import type { Stored } from './store.ts'

export interface Column<T = Stored> {
  name: string
  /** `string` unless told. */
  type?: 'string' | 'integer'
  /** Shown only by `-o wide`. */
  wide?: boolean
  cell(object: T, now: Date): string | number
}

/** Columns over the wire form of a kind; dates are text there. */
export function columns<T>(own: readonly Column<T>[]): readonly Column[] {
  return own as readonly Column<unknown>[] as readonly Column[]
}

export const nameColumn: Column<unknown> = { name: 'Name', cell: (object) => (object as Stored).metadata.name }
export const ageColumn: Column<unknown> = {
  name: 'Age',
  cell: (object, now) => ageOf((object as Stored).metadata.creationTimestamp, now),
}
