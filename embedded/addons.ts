import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import { projectRoot } from '../host/layout.ts'
import type { Draft } from './apiserver/api.ts'
import { genuineAnnotation } from './state-file.ts'

export interface AddonOptions {
  /** URL of the API server. */
  server: string
  /** The tag of kube-proxy's image. */
  version: string
  /** A genuine kube-proxy runs. */
  genuine?: boolean
}

/** An object to create. */
type Addon = Draft & { kind: string }

/** The objects of addons.yaml in the order in which kubeadm creates them. */
export function addons({ server, version, genuine = false }: AddonOptions): Addon[] {
  const text = readFileSync(join(projectRoot, 'embedded/addons.yaml'), 'utf8')
    .replace('SERVER', server)
    .replace('VERSION', version)
  return parseAllDocuments(text).map((document) => {
    const addon = document.toJS() as Addon
    if (genuine && addon.kind === 'DaemonSet')
      Object.assign(addon.metadata ?? {}, { annotations: { [genuineAnnotation]: 'true' } })
    return addon
  })
}
