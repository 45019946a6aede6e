import { mkdirSync, watch } from 'node:fs'

/**
 * Calls `onChange` when a file of a folder has changed, until `signal` aborts; a folder that can't
 * be watched never does.
 */
export function watchFolder(folder: string, onChange: () => void, signal: AbortSignal): void {
  try {
    mkdirSync(folder, { recursive: true })
    // A watcher that fails later, because the folder was removed, reports nothing more.
    watch(folder, { signal, persistent: false }, onChange).on('error', () => undefined)
  } catch {
    // No inotify instance is left, or the disk is read-only: the nodes are read from time to time
    // anyway.
  }
}
