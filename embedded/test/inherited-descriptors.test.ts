import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { projectRoot } from '../../host/layout.ts'

const program = `
import { readdirSync } from 'node:fs'
import { closeInherited, leakingDescriptors } from './embedded/inherited-descriptors.ts'
const leaking = leakingDescriptors().filter(({ descriptor }) => descriptor >= 200)
closeInherited(leaking.filter(({ descriptor }) => descriptor === 200))
closeInherited([{ descriptor: 201, target: '/of/a/process/before' }])
const left = readdirSync('/proc/self/fd').map(Number).filter((n) => n >= 200 && n < 210)
console.log(JSON.stringify({ leaking, left }))`

test('what the starter saw as leaking is closed, and no other descriptor, even if it looks inherited', () => {
  const script =
    'exec 200</etc/passwd 201</etc/group 251<&- ; exec "$0" --import tsx --input-type=module -e "$1"'
  const args = ['-c', script, process.execPath, program]
  const { stdout, stderr } = spawnSync('bash', args, { cwd: projectRoot, encoding: 'utf8' })
  expect(JSON.parse(stdout || '{}'), stderr).toEqual({
    leaking: [
      { descriptor: 200, target: '/etc/passwd' },
      { descriptor: 201, target: '/etc/group' },
    ],
    left: [201],
  })
})
