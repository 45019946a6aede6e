import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { bundleOf } from '../bundle.ts'
import { projectRoot } from '../layout.ts'

/** Where all that the daemon runs comes from. */
const SOURCES = ['cluster', 'dataplane']

/**
 * Path of the daemon as one plain JavaScript file: loading it from its three hundred sources takes longer than the kernel needs to
 * boot. Made anew when one of them, or what is installed, has changed.
 */
export function daemonBundle(): Promise<string> {
  const files = SOURCES.flatMap((folder) =>
    readdirSync(join(projectRoot, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => join(folder, name)),
  )
  const state = ['node_modules/.package-lock.json', ...files.sort()]
    .map((name) => `${name}\0${readFileSync(join(projectRoot, name), 'utf8')}`)
    .join('\0')
  return bundleOf("import './daemon.ts'", import.meta.dirname, 'daemon', state)
}
