// What is used of @kubernetes/client-node, from one file: as published it is more than eight hundred modules, and loading
// them took each command longer than its own work.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type * as Published from '@kubernetes/client-node'
import { bundleOf } from '../host/bundle.ts'
import { projectRoot } from '../host/layout.ts'

const PACKAGE = '@kubernetes/client-node'
const USED = [
  'ApiException',
  'AppsV1Api',
  'CoreV1Api',
  'createConfiguration',
  'CustomObjectsApi',
  'DiscoveryV1Api',
  'Exec',
  'HttpMethod',
  'IsomorphicFetchHttpLibrary',
  'KubeConfig',
  'KubernetesObjectApi',
  'PatchStrategy',
  'RequestContext',
  'ResponseContext',
  'ServerConfiguration',
  'setHeaderOptions',
  'wrapHttpLibrary',
] as const
type Used = Pick<typeof Published, (typeof USED)[number]>

/** From the bundle, or from the package as it is where no bundle can be made. */
async function load(): Promise<Used> {
  try {
    const installed = readFileSync(join(projectRoot, 'node_modules/.package-lock.json'), 'utf8')
    const contents = `export { ${USED.join(', ')} } from '${PACKAGE}'`
    const bundle = await bundleOf(contents, projectRoot, 'kubernetes-client', installed)
    return await import(pathToFileURL(bundle).href)
  } catch {
    return import('@kubernetes/client-node')
  }
}

export const {
  ApiException,
  AppsV1Api,
  CoreV1Api,
  createConfiguration,
  CustomObjectsApi,
  DiscoveryV1Api,
  Exec,
  HttpMethod,
  IsomorphicFetchHttpLibrary,
  KubeConfig,
  KubernetesObjectApi,
  PatchStrategy,
  RequestContext,
  ResponseContext,
  ServerConfiguration,
  setHeaderOptions,
  wrapHttpLibrary,
} = await load()
