import type { LabText } from '../../course/lab-text.ts'

/** Commands out of a lab's text, with the reference that named them. */
export interface LabFence {
  commands: string
  reference: string
}

const REFERENCE = /^([0-9]{2}-[a-z0-9-]+)\/([a-z0-9-]+)#(\d+)$/

/**
 * Resolves `02-ipvs/web#1` (the first fence of step web in lab 02-ipvs; `start` and `done` name the fences before the first and
 * behind the last step), with `lines` like `1-2` for a part of it. `readLab` gives the text of a lab's folder, or undefined where
 * there is none. Throws Error that names the reference and what there is instead.
 */
export function resolveFence(
  reference: string,
  lines: string | undefined,
  readLab: (folder: string) => LabText | undefined,
): LabFence {
  const [, folder, step, number] = REFERENCE.exec(reference) ?? []
  if (!folder || !step || !number) {
    throw new Error(`"${reference}" is no reference to a fence; they look like "02-ipvs/web#1"`)
  }
  const lab = readLab(folder)
  if (!lab) throw new Error(`"${reference}" names a lab that is not there, labs/${folder}/README.md`)
  const fences = fencesOf(lab, step)
  const fence = fences[Number(number) - 1]
  if (!fence) {
    throw new Error(`"${reference}" is not there: labs/${folder}/README.md has ${fences.length} fences of "${step}"`)
  }
  return { commands: lines === undefined ? fence : pick(fence, lines, reference), reference }
}

function fencesOf(lab: LabText, step: string): string[] {
  const first = lab.fences.findIndex((fence) => fence.step !== undefined)
  return lab.fences
    .filter((fence, index) => {
      if (step === 'start') return fence.step === undefined && (first === -1 || index < first)
      if (step === 'done') return fence.step === undefined && index > first
      return fence.step === step
    })
    .map((fence) => fence.commands)
}

function pick(commands: string, lines: string, reference: string): string {
  const all = commands.split('\n')
  const [, from, to = from] = /^(\d+)(?:-(\d+))?$/.exec(lines) ?? []
  const first = Number(from)
  const last = Number(to)
  if (!(first >= 1 && last >= first && last <= all.length)) {
    throw new Error(`"${reference}" has ${all.length} lines, so lines=${lines} is none of them`)
  }
  return all.slice(first - 1, last).join('\n')
}
