// The word with which a learner joins a room: https://192.0.2.7:8443/spring-k3f7m2qa.x5t2… Its last
// part is the fingerprint of the room's certificate, so that no authority is needed to know that
// the room is the right one.

import { createHash } from 'node:crypto'
import { Refusal } from '../host/main.ts'

export interface RoomWord {
  host: string
  port: number
  /** The room's name with the learners' secret. */
  door: string
  /** Of the room's certificate; undefined for a room without encryption. */
  fingerprint: string | undefined
}

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567'

/** The first letters of bytes in base32 (RFC 4648 6, in lower case), five bits each. */
export function base32(bytes: Uint8Array, length: number): string {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, '0')).join('')
  const letters = bits.match(/.{5}/g) ?? []
  return letters
    .slice(0, length)
    .map((five) => ALPHABET[Number.parseInt(five, 2)])
    .join('')
}

/** 100 bits: a second certificate with the same ones cannot be found. */
const FINGERPRINT_LETTERS = 20
/** 40 bits: too many to guess at the rate that the room allows. */
export const SECRET_LETTERS = 8

/** The fingerprint of a certificate in DER, for the word. */
export const fingerprintOf = (der: Uint8Array): string =>
  base32(createHash('sha256').update(der).digest(), FINGERPRINT_LETTERS)

const WORD =
  /^(https?):\/\/(\[[0-9a-f:]+\]|[A-Za-z0-9.-]+):(\d{1,5})\/([a-z0-9][a-z0-9-]{0,39}-[a-z2-7]{8})(?:\.([a-z2-7]{20}))?$/

/** Reads a word. Throws Refusal that says which form it has. */
export function parseRoomWord(text: string): RoomWord {
  const [, scheme, host = '', port, door = '', fingerprint] = WORD.exec(text.trim()) ?? []
  const isWhole = (scheme === 'https') === (fingerprint !== undefined)
  if (scheme === undefined || !isWhole || Number(port) > 65_535)
    throw new Refusal(
      `"${text}" is not the word of a room: copy it whole from the instructor's page, as in \`make lab-2 ROOM=https://192.0.2.7:8443/spring-…\`.`,
    )
  return { host: host.replace(/^\[|\]$/g, ''), port: Number(port), door, fingerprint }
}

/** The text of a word. */
export function printRoomWord({ host, port, door, fingerprint }: RoomWord): string {
  const place = `${host.includes(':') ? `[${host}]` : host}:${port}/${door}`
  return fingerprint === undefined ? `http://${place}` : `https://${place}.${fingerprint}`
}
