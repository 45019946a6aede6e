import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { readLabText } from '../../course/lab-text.ts'
import { listLabs } from '../../grading/lab-definition.ts'
import { foldCommand } from '../../slides/build/fold-command.ts'

/** Commands as bash parses them. */
function understood(commands: readonly string[]): string {
  const script = commands
    .map((command, index) => `f${index}() {\n${command}\n}\ndeclare -f f${index}`)
    .join('\n')
  const { status, stdout, stderr } = spawnSync('bash', ['-s'], { input: script, encoding: 'utf8' })
  expect([status, stderr]).toEqual([0, ''])
  return stdout
}

test('commands of the labs, folded to the width of a slide, stay the same for a shell', () => {
  const fences = listLabs().flatMap(({ folder }) =>
    readLabText(folder).fences.map(({ commands }) => commands),
  )
  const folded = fences.map((commands) =>
    commands
      .split('\n')
      .flatMap((line) => foldCommand(line))
      .join('\n'),
  )
  expect(folded.filter((commands, index) => commands !== fences[index]).length).toBeGreaterThan(10)
  expect(understood(folded)).toBe(understood(fences))
})

test('a line that fits is unchanged, others end in a backslash', () => {
  expect(foldCommand('make ipvs')).toEqual(['make ipvs'])
  expect(foldCommand(`echo ${'long '.repeat(30)}`).map((line) => line.endsWith(' \\'))).toEqual([
    true,
    true,
    false,
  ])
})

test('a word that is too wide has a line of its own, and what follows is folded', () => {
  const wide = `jsonpath='${'x'.repeat(90)}'`
  expect(foldCommand(`kubectl -o ${wide}; do ${'echo x; '.repeat(9)}done`)).toEqual([
    'kubectl -o \\',
    `  ${wide}; \\`,
    '  do echo x; echo x; echo x; echo x; echo x; echo x; echo x; \\',
    '  echo x; echo x; done',
  ])
})

test('a quote after letters of two code units is found where it is', () => {
  const command = `echo 🙂 \\x'${'text '.repeat(30)}' end`
  const folded = foldCommand(command).join('\n')
  expect(understood([folded])).toBe(understood([command]))
})

test('a line ends before an option or another command, not between an option and its value', () => {
  const args = [
    'kubectl get service a-service-with-a-long-name',
    '-o jsonpath={.metadata.namespace}',
    '| sort',
  ]
  expect(foldCommand(args.join(' '))).toEqual([`${args[0]} \\`, `  ${args[1]} ${args[2]}`])
  const quoted = 'curl -s --max-time 3 http://10.0.0.1:10256/healthz'
  expect(foldCommand(`make exec NODE=$NODE CMD="${quoted}"`)).toEqual([
    'make exec NODE=$NODE \\',
    `  CMD="${quoted}"`,
  ])
})
