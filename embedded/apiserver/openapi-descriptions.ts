import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { projectRoot } from '../../host/layout.ts'

export interface FieldDescription {
  text: string
  required: boolean
}

const resolve = createRequire(join(projectRoot, 'package.json')).resolve

/**
 * What each field of a kind means, read from the type declarations of @kubernetes/client-node (their comments are the
 * API's own reference). The kind itself is described under the empty name. Read only when somebody asks for OpenAPI.
 */
export async function fieldDescriptions(className: string): Promise<Map<string, FieldDescription>> {
  const folder = join(dirname(resolve('@kubernetes/client-node')), 'gen', 'models')
  const source = await readFile(join(folder, `${className}.d.ts`), 'utf8').catch(() => '')
  const found = new Map<string, FieldDescription>()
  const comment = /\/\*\*\s*\n\s*\* (.*)\n\s*\*\/\s*\n\s*(?:'([^']+)'(\??):|export declare class)/g
  for (const [, text = '', field, optional] of source.matchAll(comment)) {
    found.set(field ?? '', {
      text: text.replaceAll(/\\(.)/g, '$1').trim(),
      required: field !== undefined && optional === '',
    })
  }
  return found
}
