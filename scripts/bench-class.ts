// Measures the time on one core and the memory for grading a class:  bench-class.ts [COUNT]
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { makeClass } from '../bench/made-class.ts'
import { projectRoot } from '../host/layout.ts'
import { main } from '../host/main.ts'

const RECORDED = join(projectRoot, 'data/solved')
/** The labs with the largest submissions, which take longest to grade. */
const LARGEST = /^lab-[1-5]-.*\.labgrade$/

await main(async () => {
  const count = Number(process.argv[2] ?? 1000)
  const recorded = readdirSync(RECORDED).filter((name) => LARGEST.test(name))
  for (const size of [Math.ceil(count / 10), count]) {
    const paths = recorded.map((name) => join(RECORDED, name))
    const { folder, files } = await makeClass(paths, size)
    try {
      const json = join(folder, 'class.json')
      const words = ['scripts/start.mjs', 'scripts/grade-class.ts', '--jobs', '1', '--quiet', '--json', json, ...files]
      // Limited to one core if a tool for it is available.
      const [tool, ...rest] =
        spawnSync('taskset', ['--version']).status === 0
          ? ['taskset', '-c', '0', process.execPath, ...words]
          : [process.execPath, ...words]
      const { stdout, stderr } = spawnSync(tool ?? '', rest, { cwd: projectRoot, encoding: 'utf8' })
      const { graded, refused, seconds }: { graded: unknown[]; refused: unknown[]; seconds: number } = JSON.parse(
        readFileSync(json, 'utf8'),
      )
      const [, memory = '?', busy = '?'] = /most memory: (\d+) MB, processor: ([\d.]+) s/.exec(stdout + stderr) ?? []
      console.log(
        `${size} submissions: ${seconds} s (${busy} s of the processor), ${((1000 * seconds) / size).toFixed(1)} ms each, ${graded.length} graded, ${refused.length} refused, at most ${memory} MB`,
      )
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  }
})
