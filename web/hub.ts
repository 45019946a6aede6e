/** What a connected page has of a web socket. */
export interface PushReceiver {
  readonly bufferedAmount: number
  send(text: string): void
  terminate(): void
  on(event: 'close', onClose: () => void): unknown
}

/**
 * Maximum number of unsent bytes for a page that does not read; its connection is then closed, and
 * it reconnects.
 */
export const MOST_WAITING = 16 * 2 ** 20

/**
 * The connected pages. Each push goes to all of them, and the latest push of each name to a new
 * one.
 */
export class Hub<Pushes extends object> {
  readonly #pages = new Set<PushReceiver>()
  readonly #latest: Partial<Pushes> = {}
  /** The text that was sent last of each name, to detect a change. */
  readonly #sent = new Map<keyof Pushes, string>()
  readonly #onPages: (count: number) => void

  /** `onPages` is called with the number of pages when one comes or goes. */
  constructor(onPages: (count: number) => void) {
    this.#onPages = onPages
  }

  /** Sends a push to all pages, unless nothing has changed since the last one of its name. */
  push<Name extends keyof Pushes>(name: Name, push: Pushes[Name]): void {
    this.keep(name, push)
    const text = JSON.stringify({ [name]: push })
    if (this.#sent.get(name) === text) return
    this.#sent.set(name, text)
    this.#send(text)
  }

  /** Sends a push to the pages that are connected; those that connect later do not get it. */
  pass<Name extends keyof Pushes>(name: Name, push: Pushes[Name]): void {
    this.#send(JSON.stringify({ [name]: push }))
  }

  /** Keeps a push for pages that connect later; those that are connected do not get it. */
  keep<Name extends keyof Pushes>(name: Name, push: Pushes[Name]): void {
    this.#latest[name] = push
  }

  #send(text: string): void {
    for (const page of this.#pages) {
      if (page.bufferedAmount > MOST_WAITING) page.terminate()
      else page.send(text)
    }
  }

  join(page: PushReceiver): void {
    for (const [name, push] of Object.entries(this.#latest))
      page.send(JSON.stringify({ [name]: push }))
    this.#pages.add(page)
    page.on('close', () => {
      this.#pages.delete(page)
      this.#onPages(this.#pages.size)
    })
    this.#onPages(this.#pages.size)
  }
}
