import { notAcceptable } from './status-error.ts'

export type Shape = 'object' | 'table' | 'metadata'

export interface Accepted {
  encoding: 'json' | 'yaml'
  shape: Shape
}

/**
 * The form of the answer a client asks for. What isn't served (protobuf, other versions of tables) is passed over as
 * long as the client names something else too; otherwise 406.
 */
export function negotiate(accept: string | undefined): Accepted {
  if (!accept) return { encoding: 'json', shape: 'object' }
  for (const entry of accept.split(',')) {
    const [type = '', ...parameters] = entry.split(';').map((part) => part.trim())
    const encoding = encodings[type]
    if (!encoding) continue
    const values = new Map(parameters.map((part) => part.split('=', 2) as [string, string]))
    const as = values.get('as')
    if (as === undefined) return { encoding, shape: 'object' }
    if (values.get('g') !== 'meta.k8s.io' || values.get('v') !== 'v1') continue
    if (as === 'Table') return { encoding, shape: 'table' }
    if (as === 'PartialObjectMetadata' || as === 'PartialObjectMetadataList') return { encoding, shape: 'metadata' }
  }
  throw notAcceptable(['application/json', 'application/yaml'])
}

const encodings: Record<string, 'json' | 'yaml'> = {
  'application/json': 'json',
  'application/*': 'json',
  '*/*': 'json',
  'application/yaml': 'yaml',
}
