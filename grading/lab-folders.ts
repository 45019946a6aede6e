import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { projectRoot } from '../host/layout.ts'

export const labsFolder = join(projectRoot, 'labs')

/** Numbers and folders of the labs, in order. */
export function listLabs(): { number: number; folder: string }[] {
  return readdirSync(labsFolder)
    .filter((name) => /^\d\d-/.test(name) && existsSync(join(labsFolder, name, 'lab.yaml')))
    .map((name) => ({ number: Number(name.slice(0, 2)), folder: name }))
    .sort((a, b) => a.number - b.number)
}

/** The folder of a lab. Throws Error with the existing labs. */
export function labFolder(number: number): string {
  const labs = listLabs()
  const found = labs.find((lab) => lab.number === number)
  if (found) return found.folder
  throw new Error(`There is no lab "${number}": the labs are ${labs.map((lab) => lab.number).join(', ')}.`)
}
