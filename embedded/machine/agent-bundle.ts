import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { bundleOf } from '../../host/bundle.ts'

/** Path of the guest's agent as one plain JavaScript file. */
export function agentBundle(): Promise<string> {
  const here = import.meta.dirname
  const sources = [...readdirSync(here).sort(), '../../host/shell-word.ts']
  const state = sources.map((name) => `${name}\0${readFileSync(join(here, name), 'utf8')}`).join('\0')
  return bundleOf("import './agent.ts'", here, 'agent', state)
}
