// The port of the guide's page, the same each time, so that a bookmark and an open page keep their
// address.

import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { cacheFolder } from '../../host/layout.ts'

/** The first port that is tried in a checkout; no service is registered for it (IANA). */
const FIRST = 8630
/** The number of ports that are tried. */
const MOST = 50

/**
 * The port that this checkout used last, else the first one; if it is in use, the next free one. 0
 * if none of them is free.
 */
export async function usualPort(file = join(cacheFolder, 'guide', 'port')): Promise<number> {
  const last = remembered(file)
  for (let port = last; port < last + MOST && port <= 65_535; port++) {
    if (!(await isFree(port))) continue
    remember(file, port)
    return port
  }
  return 0
}

function remembered(file: string): number {
  try {
    const port = Number(readFileSync(file, 'utf8'))
    return Number.isInteger(port) && port >= 1024 && port <= 65_535 ? port : FIRST
  } catch {
    return FIRST
  }
}

function remember(file: string, port: number): void {
  try {
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, `${port}\n`)
  } catch {
    // A checkout that can't be written to: the page has another port next time.
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1')
  try {
    await once(server, 'listening')
    return true
  } catch {
    return false
  } finally {
    server.close()
  }
}
