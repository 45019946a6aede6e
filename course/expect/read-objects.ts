import { createReadStream, existsSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { type ClusterObjects, readObjects } from '../../dataplane/objects.ts'
import { UserError } from '../../host/main.ts'
import { PlainFileError, readPlainFile } from '../../host/plain-file.ts'
import { plainText } from '../../host/plain-text.ts'
import type { ExpectArguments } from './arguments.ts'

const ADVICE = 'write it with: kubectl get nodes,services,endpointslices -A -o json'

/** The text of a file, or of standard input for `-`. */
export async function readInput(path: string): Promise<string> {
  // A pipe that is slow to fill must be waited for, which reading a file descriptor at once does not.
  if (path === '-') return text(process.stdin)
  // A shell's <(command) is a pipe that the command fills.
  if (/^\/(?:dev|proc\/self)\/(?:fd\/|stdin)/.test(path)) return text(createReadStream(path))
  try {
    return readPlainFile(path)
  } catch (error) {
    throw error instanceof PlainFileError ? new UserError(`"${path}" ${error.fault}; ${ADVICE}`) : error
  }
}

/**
 * The API objects of --objects, else those of the capture that is compared.
 * An object that cannot be used is named on standard error, and left out.
 * @throws UserError when there are none or they are no JSON, ObjectsError when they are no list of objects.
 */
export async function givenObjects({ objects, diff }: ExpectArguments): Promise<ClusterObjects> {
  const beside = diff === undefined ? undefined : join(diff, 'objects.json')
  const path = objects ?? (beside !== undefined && existsSync(beside) ? beside : undefined)
  if (path === undefined) throw new UserError(`"${diff}" holds no "objects.json"; add --objects FILE.`)
  const input = await readInput(path)
  const name = path === '-' ? 'Standard input' : `"${path}"`
  if (input.trim() === '') throw new UserError(`${name} is empty; ${ADVICE}`)
  let json: unknown
  try {
    json = JSON.parse(input)
  } catch {
    throw new UserError(`${name} is no JSON; ${ADVICE}`)
  }
  const read = readObjects(json)
  const refused = new Map<string, string[]>()
  for (const { object, field, message } of read.faults) {
    const [what, fault] = object === 'input' ? [field, message] : [object, `${field} ${message}`]
    refused.set(what, [...(refused.get(what) ?? []), fault])
  }
  for (const [what, faults] of refused)
    process.stderr.write(`${plainText(`${name}: ${what} is left out: ${faults.join('; ')}.`)}\n`)
  return read.objects
}
