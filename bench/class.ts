import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { projectRoot, START } from '../host/layout.ts'
import { makeClass } from './made-class.ts'

const RECORDED = join(projectRoot, 'data/solved')
/** The labs with the largest submissions, which take longest to grade. */
const LARGEST = /^lab-[1-5]-.*\.labgrade$/

/** Prints the time on one core and the memory for grading a class of 100 and of 1,000. */
export async function measureClass(): Promise<void> {
  const recorded = readdirSync(RECORDED).filter((name) => LARGEST.test(name))
  // Limited to one core if a tool for it is available.
  const oneCore = spawnSync('taskset', ['--version']).status === 0 ? ['taskset', '-c', '0'] : []
  for (const size of [100, 1000]) {
    const paths = recorded.map((name) => join(RECORDED, name))
    const { folder, files } = await makeClass(paths, size)
    try {
      const json = join(folder, 'class.json')
      const args = [
        START,
        'scripts/grade-class.ts',
        '--jobs',
        '1',
        '--quiet',
        '--json',
        json,
        ...files,
      ]
      const [tool, ...rest] = [...oneCore, process.execPath, ...args] as [string, ...string[]]
      const { stdout, stderr } = spawnSync(tool, rest, { cwd: projectRoot, encoding: 'utf8' })
      const {
        graded,
        refused,
        seconds,
      }: { graded: unknown[]; refused: unknown[]; seconds: number } = JSON.parse(
        readFileSync(json, 'utf8'),
      )
      const [, memory = '?', busy = '?'] =
        /most memory: (\d+) MB, processor: ([\d.]+) s/.exec(stdout + stderr) ?? []
      console.log(
        `${size} submissions: ${seconds} s (${busy} s of the processor), ${((1000 * seconds) / size).toFixed(1)} ms each, ${graded.length} graded, ${refused.length} refused, at most ${memory} MB`,
      )
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  }
}
