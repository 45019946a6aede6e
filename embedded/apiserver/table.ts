import { columnsOf } from './columns.ts'
import type { Stored } from './store.ts'

/** The content of a table's rows besides the cells: nothing, the metadata of the object, or the whole object. */
export type IncludeObject = 'None' | 'Metadata' | 'Object'

/** Objects as the table that kubectl prints; `headers: false` for all but the first event of a watch. */
export function tableOf(
  resource: string,
  objects: readonly Stored[],
  metadata: object,
  { include, now, headers = true }: { include: IncludeObject; now: Date; headers?: boolean },
): object {
  const columns = columnsOf(resource)
  const contents = {
    None: () => undefined,
    Metadata: ({ metadata }: Stored) => ({ kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata }),
    Object: (object: Stored) => object,
  }
  const columnDefinitions = columns.map(({ name, type = 'string', wide }) => ({
    ...{ name, type, format: name === 'Name' ? 'name' : '', description: '', priority: wide ? 1 : 0 },
  }))
  const rows = objects.map((object) => ({
    cells: columns.map((column) => column.cell(object, now)),
    object: contents[include](object),
  }))
  return {
    kind: 'Table',
    apiVersion: 'meta.k8s.io/v1',
    metadata,
    columnDefinitions: headers ? columnDefinitions : [],
    rows,
  }
}
