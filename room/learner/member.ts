// Which room a learner has joined, remembered for each cluster of a checkout.

import { randomBytes } from 'node:crypto'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import * as z from 'zod'
import { roomMemberFile } from '../../host/layout.ts'
import { Refusal } from '../../host/main.ts'
import { readPlainFile } from '../../host/plain-file.ts'
import { parseRoomWord } from '../word.ts'

const memberSchema = z.object({
  word: z.string(),
  name: z.string(),
  /** Known to this checkout and the room only. */
  learner: z.string(),
})
export type RoomMember = z.infer<typeof memberSchema>

/** `ROOM=off` leaves the room. */
export const ROOM_OFF = 'off'

/** The room that was joined; undefined if there is none. */
export function readMember(folder: string): RoomMember | undefined {
  try {
    return memberSchema.parse(JSON.parse(readPlainFile(roomMemberFile(folder))))
  } catch {
    return undefined
  }
}

/** Names that are sent: one line, without anything invisible at the ends. */
function memberName(text: string): string {
  const name = text.trim()
  if (name.length > 0 && name.length <= 40 && !/[\p{Cc}\p{Cf}]/u.test(name)) return name
  throw new Refusal(
    `"${text}" is not a name for a room: use 1 to 40 characters, as in LEARNER=alice.`,
  )
}

/**
 * Remembers a room that a learner joins. The same room keeps the learner, so that a second joining
 * continues the first one. Throws Refusal for an invalid word or name.
 */
export function joinRoom(folder: string, word: string, name = process.env.LEARNER): RoomMember {
  const place = parseRoomWord(word)
  const before = readMember(folder)
  const isSame = before !== undefined && parseRoomWord(before.word).door === place.door
  const learner = isSame ? before.learner : randomBytes(16).toString('hex')
  const own = name || (isSame ? before.name : `learner-${learner.slice(0, 4)}`)
  const member = { word: word.trim(), name: memberName(own), learner }
  if (!isSame) forgetMember(folder)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  writeFileSync(roomMemberFile(folder), `${JSON.stringify(member)}\n`, { mode: 0o600 })
  return member
}

/** Forgets the room, and what waits to be sent to it. */
export const forgetMember = (folder: string): void =>
  rmSync(folder, { recursive: true, force: true })

/**
 * The room that `ROOM` names or that was joined before, also if it is to be left; undefined without
 * one. Throws Refusal for an invalid word.
 */
export function memberFromEnvironment(
  folder: string,
  wanted = process.env.ROOM,
): RoomMember | undefined {
  if (wanted && wanted !== ROOM_OFF) return joinRoom(folder, wanted)
  return readMember(folder)
}
