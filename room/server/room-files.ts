// The folder of a room: its secrets, and its journal.

import { randomBytes } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { isIPv6 } from 'node:net'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import * as z from 'zod'
import { selfSignedTls } from '../../embedded/index.ts'
import { projectRoot } from '../../host/layout.ts'
import { Refusal } from '../../host/main.ts'
import { PlainFileError, readPlainFile } from '../../host/plain-file.ts'
import { base32, SECRET_LETTERS } from '../word.ts'

const keysSchema = z.object({
  /** The room's name with the learners' secret. */
  door: z.string(),
  port: z.number().int().min(0).max(65_535),
  cert: z.string(),
  key: z.string(),
})
/** What must stay the same when a room is started again, so that its word stays valid. */
export type RoomKeys = z.infer<typeof keysSchema>

/** Valid names of rooms; they become parts of folders and addresses. */
const ROOM_NAME = /^[a-z0-9][a-z0-9-]{0,30}$/

/** Validates and returns the name. Throws Refusal with the rule. */
export function roomName(text: string | undefined): string {
  if (text === undefined || text === '') return 'room'
  if (ROOM_NAME.test(text)) return text
  throw new Refusal(
    `"${text}" can't name a room: use lower-case letters, digits and dashes, at most 31, as in \`make room ROOM=spring\`.`,
  )
}

export const roomFolder = (name: string): string => join(projectRoot, 'rooms', name)
export const journalFile = (folder: string): string => join(folder, 'journal.jsonl')
const keysFile = (folder: string) => join(folder, 'keys.json')

/** The keys of a room, which are made with its folder if it is new. */
export async function roomKeys(folder: string, name: string, host: string): Promise<RoomKeys> {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  try {
    return keysSchema.parse(JSON.parse(readPlainFile(keysFile(folder))))
  } catch (error) {
    if (!(error instanceof PlainFileError)) throw unusable(folder)
    const secret = base32(randomBytes(SECRET_LETTERS), SECRET_LETTERS)
    const tls = await selfSignedTls(isIPv6(host) ? ['localhost'] : ['localhost', host])
    return keepKeys(folder, { door: `${name}-${secret}`, port: 0, ...tls })
  }
}

const unusable = (folder: string) =>
  new Refusal(
    `"${keysFile(folder)}" is not a room's: move the folder away, or choose another name: make room ROOM=second`,
  )

/** Stores the keys, which only this user can read. */
export function keepKeys(folder: string, keys: RoomKeys): RoomKeys {
  writeFileSync(keysFile(folder), `${JSON.stringify(keys)}\n`, { mode: 0o600 })
  return keys
}

/**
 * The address of this machine that learners can reach: that of `HOST`, else the first one that is
 * not of this machine only.
 */
export function roomHost(wanted = process.env.HOST): string {
  if (wanted) {
    if (/^[A-Za-z0-9.-]{1,253}$|^[0-9a-f:]{2,45}$/.test(wanted)) return wanted
    throw new Refusal(
      `"${wanted}" is not a name or an address of this machine: make room HOST=192.0.2.7`,
    )
  }
  const addresses = Object.values(networkInterfaces()).flatMap((own) => own ?? [])
  const outer = addresses.find(({ family, internal }) => family === 'IPv4' && !internal)
  return outer?.address ?? '127.0.0.1'
}
