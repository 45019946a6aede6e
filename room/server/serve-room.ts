// Starts a room: its port for learners, and the instructor's page on 127.0.0.1.

import { join } from 'node:path'
import encodeQR from 'qr'
import { cacheFolder, projectRoot } from '../../host/layout.ts'
import { onlyOne } from '../../host/one-at-a-time.ts'
import type { PageFiles } from '../../web/page-files.ts'
import { servePage } from '../../web/page-server.ts'
import { ROOM_ACTIONS, type RoomAction } from '../protocol.ts'
import { fingerprintOf, printRoomWord } from '../word.ts'
import { openLearnerPort } from './learner-port.ts'
import { Room } from './room.ts'
import { journalFile, keepKeys, roomFolder, roomHost, roomKeys } from './room-files.ts'

export interface RoomOptions {
  name: string
  /** Where the room keeps its keys and its journal. */
  folder?: string
  host?: string
  /** The port for learners; 0 takes that of the last time, else a free one from 8443. */
  port: number
  /** The port of the instructor's page; 0 takes a free one. */
  pagePort: number
  /** Without encryption. */
  plain: boolean
  files: PageFiles
}

export interface RunningRoom {
  /** What learners type after `ROOM=`. */
  word: string
  /** The address of the instructor's page, with its secret. */
  url: string
  end(): Promise<void>
}

/** The sources of the instructor's page. */
export const ROOM_PAGE = join(projectRoot, 'room', 'page')

/** The port that is tried first, and how many. */
const FIRST_PORT = 8443
const MOST_PORTS = 40

/**
 * Runs `work` while a room of this name is open on this machine. Throws Error if it is open
 * already.
 */
export function whileRoomIsOpen<T>(name: string, work: () => Promise<T>): Promise<T> {
  return onlyOne(join(cacheFolder, 'locks', `room-${name}`), work, {
    doing: `has the room "${name}" open`,
    refusal: ({ pid }) =>
      new Error(
        `Process ${pid} already has the room "${name}" open: end it first, or open another one: make room ROOM=second`,
      ),
  })
}

/** Opens a room. Throws Refusal if a port can't be used. */
export async function serveRoom(options: RoomOptions): Promise<RunningRoom> {
  const { name, plain, folder = roomFolder(name), host = roomHost() } = options
  const keys = await roomKeys(folder, name, host)
  const cert = new (await import('node:crypto')).X509Certificate(keys.cert)
  const fingerprint = plain ? undefined : fingerprintOf(cert.raw)
  const wordFor = (port: number) => printRoomWord({ host, port, door: keys.door, fingerprint })
  // The word has the port, and the room's pages the word: the port is opened first, and lets no
  // learner in until there is a room.
  let room: Room | undefined
  const port = await openFirst(options.port || keys.port, options.port > 0, (wanted) =>
    openLearnerPort(
      {
        host,
        port: wanted,
        door: keys.door,
        tls: plain ? undefined : keys,
        text: `This is the room "${name}". In the folder of the labs, type:\n\n    make lab-2 ROOM=…\n\nwith the word that your instructor shows in place of the dots.\n`,
      },
      { arrive: (hello, link) => room?.arrive(hello, link) },
    ),
  )
  const word = wordFor(port.port)
  keepKeys(folder, { ...keys, port: port.port })
  const qr = encodeQR(word, 'svg', { border: 2 })
  const opened = await Room.open({ name, folder, word, qr, encrypted: !plain }, journalFile(folder))
  room = opened
  const page = await servePage(
    {
      target: 'room',
      files: options.files,
      actions: ROOM_ACTIONS,
      // The server has checked that the name is one of ROOM_ACTIONS.
      perform: (action, input) => opened.perform(action as RoomAction, input),
      socketAt: (path) => (path === '/events' ? (socket) => opened.join(socket) : undefined),
    },
    options.pagePort,
  )
  return {
    word,
    url: page.url,
    async end() {
      await Promise.all([port.close(), page.close()])
      await opened.end()
    },
  }
}

/** Opens the wanted port, or, if none is wanted, the first free one. */
async function openFirst<T>(
  wanted: number,
  isFixed: boolean,
  open: (port: number) => Promise<T>,
): Promise<T> {
  const first = wanted || FIRST_PORT
  for (let port = first; ; port++) {
    try {
      return await open(port)
    } catch (error) {
      if (isFixed || port >= first + MOST_PORTS) throw error
    }
  }
}
