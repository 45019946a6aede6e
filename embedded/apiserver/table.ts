import type { Stored } from './store.ts'
import type { Column } from './table-column.ts'
import { columnsOf } from './table-columns.ts'

export type IncludeObject = 'None' | 'Metadata' | 'Object'

export interface Table {
  kind: 'Table'
  apiVersion: 'meta.k8s.io/v1'
  metadata: object
  columnDefinitions: { name: string; type: string; format: string; description: string; priority: number }[]
  rows: { cells: unknown[]; object?: unknown }[]
}

/** Objects as the table that kubectl prints; `headers: false` for all but the first event of a watch. */
export function tableOf(
  resource: string,
  objects: readonly Stored[],
  metadata: object,
  options: { include: IncludeObject; now: Date; headers?: boolean; present?: (object: Stored) => unknown },
): Table {
  const columns: readonly Column[] = columnsOf(resource)
  return {
    kind: 'Table',
    apiVersion: 'meta.k8s.io/v1',
    metadata,
    columnDefinitions:
      options.headers === false
        ? []
        : columns.map(({ name, type = 'string', wide }) => ({
            name,
            type,
            format: name === 'Name' ? 'name' : '',
            description: '',
            priority: wide ? 1 : 0,
          })),
    rows: objects.map((object) => ({
      cells: columns.map((column) => column.cell(object, options.now)),
      ...rowObject(object, options),
    })),
  }
}

/** metadata only, as clients ask for by `as=PartialObjectMetadata`. */
export function partialMetadata(object: Stored): object {
  return { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata: object.metadata }
}

function rowObject(
  object: Stored,
  { include, present }: { include: IncludeObject; present?: (object: Stored) => unknown },
): { object?: unknown } {
  if (include === 'None') return {}
  return { object: include === 'Object' ? (present ? present(object) : object) : partialMetadata(object) }
}
