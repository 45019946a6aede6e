import { createReadStream } from 'node:fs'
import { text as readAll } from 'node:stream/consumers'
import { type ClusterObjects, readObjects } from '../dataplane/objects.ts'
import { Refusal } from '../host/main.ts'
import { PlainFileError, readPlainFile } from '../host/plain-file.ts'
import { plainText } from '../host/plain-text.ts'

const ADVICE = 'write it with: kubectl get nodes,services,endpointslices -A -o json'

/**
 * The text of a file, or of standard input for `-`. Throws Refusal for a file that can't be read.
 */
export async function readInput(path: string): Promise<string> {
  // A stream waits for a slow pipe; a synchronous read of the descriptor does not.
  if (path === '-') return readAll(process.stdin)
  // <(command) in a shell is also a pipe.
  if (/^\/(?:dev|proc\/self)\/(?:fd\/|stdin)/.test(path)) return readAll(createReadStream(path))
  try {
    return readPlainFile(path)
  } catch (error) {
    throw error instanceof PlainFileError
      ? new Refusal(`"${path}" ${error.fault}; ${ADVICE}`)
      : error
  }
}

/**
 * The API objects of a file (`-`: standard input) that kubectl wrote as JSON, and one sentence for
 * each that is left out because it is invalid.
 * @throws Refusal when there are none or they are not JSON, ObjectsError when they are not a list
 * of objects.
 */
export async function readObjectsAt(
  path: string,
): Promise<{ objects: ClusterObjects; leftOut: string[] }> {
  const input = await readInput(path)
  const name = path === '-' ? 'Standard input' : `"${path}"`
  if (input.trim() === '') throw new Refusal(`${name} is empty; ${ADVICE}`)
  let json: unknown
  try {
    json = JSON.parse(input)
  } catch {
    throw new Refusal(`${name} is not JSON; ${ADVICE}`)
  }
  const { objects, faults } = readObjects(json)
  const refused = new Map<string, string[]>()
  for (const { object, field, message } of faults) {
    const [what, fault] = object === 'input' ? [field, message] : [object, `${field} ${message}`]
    refused.set(what, [...(refused.get(what) ?? []), fault])
  }
  const leftOut = [...refused].map(([what, texts]) =>
    plainText(`${name}: ${what} is left out: ${texts.join('; ')}.`),
  )
  return { objects, leftOut }
}
