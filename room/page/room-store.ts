// The state of the instructor's page, and its connection to the room's server.

import type {
  DrawnShownPath,
  LearnerDetail,
  LearnerTile,
  RoomAction,
  RoomArguments,
  RoomPush,
  RoomPushes,
  RoomReply,
} from '../protocol.ts'

export interface RoomPageState {
  connected: boolean
  room?: RoomPush
  tiles: ReadonlyMap<number, LearnerTile>
  /** The room's clock minus that of the browser. */
  ahead: number
  /** The number of the lab that the heat map shows; undefined shows that of most learners. */
  lab?: number
  /** The tile of the learner that is looked at. */
  looked?: number
  detail?: LearnerDetail
  path?: DrawnShownPath | { trouble: string }
  /** Why the last action was refused, or what it did. */
  fault?: string
  done?: string
}

let state: RoomPageState = { connected: false, tiles: new Map(), ahead: 0 }
let changed: () => void = () => undefined

export const roomNow = (): RoomPageState => state

/** The time of the room's clock. */
export const roomClock = ({ ahead }: RoomPageState): number => Date.now() + ahead

/** Changes the state and draws the page again. */
export function updateRoom(change: Partial<RoomPageState>): void {
  state = { ...state, ...change }
  changed()
}

/** Calls `draw` after each change. */
export function whenRoomChanges(draw: () => void): void {
  changed = draw
}

const RETRY_MS = 1000

/** Connects to the server, and again whenever the connection ends. */
export function connectRoom(): void {
  const socket = new WebSocket(`ws://${location.host}/events`)
  socket.onopen = () => updateRoom({ connected: true })
  socket.onmessage = ({ data }) => take(JSON.parse(data))
  socket.onclose = () => {
    updateRoom({ connected: false })
    setTimeout(connectRoom, RETRY_MS)
  }
}

function take({ room, tiles, changed: news, path }: Partial<RoomPushes>): void {
  if (room) updateRoom({ room, ahead: room.now - Date.now() })
  if (tiles) updateRoom({ tiles: new Map(tiles.map((tile) => [tile.tile, tile])) })
  if (news) {
    const next = new Map(state.tiles)
    for (const tile of news.tiles) next.set(tile.tile, tile)
    for (const tile of news.removed) next.delete(tile)
    updateRoom({ tiles: next, ahead: news.now - Date.now() })
    if (news.tiles.some(({ tile }) => tile === state.looked)) void refreshDetail()
  }
  if (path && path.tile === state.looked)
    updateRoom({ path: 'path' in path ? path.path : { trouble: path.trouble } })
}

/** Performs an action; undefined if it was refused (the page shows the reason). */
export async function performInRoom<Name extends RoomAction>(
  name: Name,
  input: RoomArguments<Name>,
): Promise<RoomReply<Name> | undefined> {
  try {
    updateRoom({ fault: undefined as never, done: undefined as never })
    const response = await fetch(`/api/${name}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(input),
    })
    const reply = await response.json()
    if (reply.error === undefined) return reply
    updateRoom({ fault: reply.error })
  } catch {
    updateRoom({ fault: 'The room’s server does not answer: is `make room` still running?' })
  }
  return undefined
}

/** Shows a learner's steps, and asks the learner's guide for the path of a packet. */
export async function lookAt(tile: number | undefined): Promise<void> {
  const { detail: _detail, path: _path, looked: _looked, ...rest } = state
  state = rest
  if (tile === undefined) return updateRoom({})
  updateRoom({ looked: tile })
  const reply = await performInRoom('look', { tile, path: true })
  if (reply && state.looked === tile) updateRoom({ detail: reply.detail })
}

async function refreshDetail(): Promise<void> {
  const tile = state.looked
  if (tile === undefined) return
  const reply = await performInRoom('look', { tile, path: false })
  if (reply && state.looked === tile) updateRoom({ detail: reply.detail })
}
