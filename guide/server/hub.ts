import type { WebSocket } from 'ws'
import type { Push } from '../protocol.ts'

/** Maximum number of unsent bytes for a page that does not read; its connection is then closed, and it reconnects. */
export const MOST_WAITING = 16 * 2 ** 20
/** Pings detect pages that were lost without closing the connection. */
const PING_MS = 30_000

/** The connected pages. Each push goes to all of them, and the latest push of each type to a new one. */
export class Hub {
  readonly #pages = new Set<WebSocket>()
  /** The last push of each type, and the part of its text that is compared to detect a change. */
  readonly #last = new Map<Push['type'], { push: Push; news?: string }>()
  readonly #onPages: (count: number) => void
  readonly #pings: NodeJS.Timeout

  /** `onPages` is called with the number of pages when one comes or goes. */
  constructor(onPages: (count: number) => void) {
    this.#onPages = onPages
    this.#pings = setInterval(() => {
      for (const page of this.#pages) page.ping()
    }, PING_MS).unref()
  }

  /** Sends a push to all pages, unless nothing has changed since the last one of its type. */
  push(push: Push): void {
    const text = JSON.stringify(push)
    // The page runs the clock itself, so time alone is not a change.
    const news = push.type === 'progress' ? JSON.stringify({ ...push, workedMs: 0 }) : text
    if (this.#last.get(push.type)?.news === news) return
    this.#last.set(push.type, { push, news })
    this.#send(text)
  }

  /** Sends a push to the pages that are connected; later ones do not get it. */
  pass(push: Push): void {
    this.#send(JSON.stringify(push))
  }

  /** Keeps a push for pages that connect later; those that are connected do not get it. */
  keep(push: Push): void {
    this.#last.set(push.type, { push })
  }

  #send(text: string): void {
    for (const page of this.#pages) {
      if (page.bufferedAmount > MOST_WAITING) page.terminate()
      else page.send(text)
    }
  }

  join(page: WebSocket): void {
    for (const { push } of this.#last.values()) page.send(JSON.stringify(push))
    this.#pages.add(page)
    page.on('close', () => {
      this.#pages.delete(page)
      this.#onPages(this.#pages.size)
    })
    this.#onPages(this.#pages.size)
  }

  end(): void {
    clearInterval(this.#pings)
  }
}
