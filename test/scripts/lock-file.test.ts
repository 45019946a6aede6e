import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { projectRoot } from '../../host/layout.ts'

const names = z.record(z.string(), z.string()).default({})
const lockSchema = z.looseObject({
  packages: z.record(
    z.string(),
    z.looseObject({
      resolved: z.string().optional(),
      dependencies: names,
      optionalDependencies: names,
    }),
  ),
})

const { packages } = lockSchema.parse(
  JSON.parse(readFileSync(join(projectRoot, 'package-lock.json'), 'utf8')),
)

/**
 * Whether the lock file has the package where Node.js looks for it: beside the one that asks, or
 * above.
 */
function isLocked(asking: string, name: string): boolean {
  for (
    let place = asking;
    ;
    place = place.slice(0, Math.max(0, place.lastIndexOf('node_modules/') - 1))
  ) {
    if (Object.hasOwn(packages, `${place === '' ? '' : `${place}/`}node_modules/${name}`))
      return true
    if (place === '') return false
  }
}

describe('package-lock.json', () => {
  test('has every package that another one depends on, also for other platforms', () => {
    const missing = Object.entries(packages).flatMap(
      ([place, { dependencies, optionalDependencies }]) =>
        Object.keys({ ...dependencies, ...optionalDependencies }).filter(
          (name) => !isLocked(place, name),
        ),
    )
    expect(missing).toEqual([])
  })

  test('names no registry', () => {
    expect(Object.values(packages).filter(({ resolved }) => resolved !== undefined)).toEqual([])
  })

  test('fits package.json, as npm ci sees it', () => {
    const folder = mkdtempSync(join(tmpdir(), 'lock-file-'))
    try {
      for (const file of ['package.json', 'package-lock.json'])
        cpSync(join(projectRoot, file), join(folder, file))
      const args = [
        'ci',
        '--dry-run',
        '--ignore-scripts',
        '--offline',
        '--no-audit',
        '--no-fund',
        '--cache',
        folder,
      ]
      const { status, stderr } = spawnSync('npm', args, { cwd: folder, encoding: 'utf8' })
      expect(status, stderr).toBe(0)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})
