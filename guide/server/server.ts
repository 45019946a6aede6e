// The guide's web server: serves the page, and passes actions, pushes and terminals on.

import { join } from 'node:path'
import type { WebSocket } from 'ws'
import { projectRoot } from '../../host/layout.ts'
import type { PushReceiver } from '../../web/hub.ts'
import type { PageFiles } from '../../web/page-files.ts'
import { type PageServer, servePage } from '../../web/page-server.ts'
import { ACTIONS, type ActionName } from '../protocol.ts'

/** The handler of the server's requests. */
export interface GuideHandler {
  /**
   * Performs an action of the page and returns its reply, if it has one. Throws Error with a
   * sentence for the learner.
   */
  perform(name: ActionName, input: unknown): Promise<object | undefined>
  /** Adds a page that receives pushes. */
  join(page: PushReceiver): void
  /** Connects a page to a terminal; false if the id is unknown. */
  attach(terminal: string, page: WebSocket): boolean
}

const TERMINAL = /^\/terminal\/([a-z0-9-]{1,40})$/

/** The sources of the guide's page. */
export const GUIDE_PAGE = join(projectRoot, 'guide', 'page')

/**
 * Starts the server on 127.0.0.1; `port` 0 chooses a free one. Throws Refusal if the port is in
 * use.
 */
export function serveGuide(
  guide: GuideHandler,
  files: PageFiles,
  port: number,
): Promise<PageServer> {
  return servePage(
    {
      target: 'guide',
      files,
      actions: ACTIONS,
      // The server has checked that the name is one of ACTIONS.
      perform: (name, input) => guide.perform(name as ActionName, input),
      socketAt(path) {
        if (path === '/events') return (page) => guide.join(page)
        const terminal = TERMINAL.exec(path)?.[1]
        if (terminal === undefined) return undefined
        return (page) => {
          if (!guide.attach(terminal, page)) page.close(4004, 'no such terminal')
        }
      },
    },
    port,
  )
}
