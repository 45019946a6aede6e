import { mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'

/** What a kernel's command line carries as it is: it is one text, cut at spaces and quotes. */
const PLAIN = /^[\w./+:@=-]+$/

/** A folder's path as a kernel's command line can carry it: its own, or that of a link to it. `end` takes the link away. */
export function plainPath(folder: string): { path: string; end(): void } {
  if (PLAIN.test(folder)) return { path: folder, end: () => {} }
  const place = mkdtempSync('/tmp/kube-service-labs-')
  const path = join(place, 'here')
  symlinkSync(folder, path)
  return { path, end: () => rmSync(place, { recursive: true, force: true }) }
}
