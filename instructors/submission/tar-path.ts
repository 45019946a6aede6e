import type { ArchiveLimits } from './limits.ts'
import { quoted, refuse } from './refusal.ts'

const KINDS: Record<string, string> = {
  '1': 'a hard link',
  '2': 'a symbolic link',
  '3': 'a character device',
  '4': 'a block device',
  '6': 'a named pipe',
}

/** Refuses every kind of entry but files, folders and extended headers. */
export function requireHarmlessType(type: string, path: string): void {
  if (type === '0' || type === '5' || type === 'x' || type === 'g') return
  refuse(
    `It holds ${KINDS[type] ?? `an entry of unknown type ${quoted(type)}`}, ${quoted(path)}: only plain files belong in it.`,
  )
}

/**
 * The path of an entry in its plain form, without `./` in front and `/` behind. Refuses one that leads out of the archive or
 * that a file system or a terminal could take for something else. Nothing is ever written to disk under such a name.
 */
export function plainPath(path: string, limits: ArchiveLimits): string {
  if (path.length > 255) refuse(`It holds a path of ${path.length} characters; 255 is the most.`)
  if (/[\0-\x1f\x7f-\x9f\\]/.test(path))
    refuse(`It holds a path with control characters or a backslash, ${quoted(path)}.`)
  if (path.startsWith('/')) refuse(`It holds an absolute path, ${quoted(path)}.`)
  const parts = path
    .replace(/^(?:\.\/)+/, '')
    .replace(/\/+$/, '')
    .split('/')
  if (parts.includes('..')) refuse(`It holds a path that leads out of it, ${quoted(path)}.`)
  if (parts.length - 1 > limits.depth) refuse(`It holds folders ${parts.length - 1} deep; ${limits.depth} is the most.`)
  return parts.join('/')
}
