import { join } from 'node:path'
import { type Capture, readCaptureFolder } from '../../cluster/capture-folder.ts'
import { projectRoot } from '../../host/layout.ts'
import { flushed } from '../../instructors/mutation/good-captures.ts'

export const kindCapture = (stage: string) =>
  join(projectRoot, 'data/recordings/kind-v1.20.2', stage)

let known: Capture | undefined

/**
 * A genuine cluster in IPVS mode, with what iptables mode left taken out as `make flush-nat` does.
 */
export function flushedCapture(): Capture {
  known ??= flushed(readCaptureFolder(kindCapture('ipvs-kernel-3-flushed-and-used')))
  return known
}

/** The capture with one file of one node changed; the change must change something. */
export function breakFile(
  capture: Capture,
  node: string,
  file: string,
  edit: (text: string) => string,
): Capture {
  const nodes = capture.nodes.map((entry) => {
    if (entry.name !== node) return entry
    const before = entry.files.get(file) ?? ''
    const after = edit(before)
    if (after === before) throw new Error(`the edit of ${file} changed nothing`)
    return { ...entry, files: new Map(entry.files).set(file, after) }
  })
  return { ...capture, nodes }
}
