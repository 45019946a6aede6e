import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { endAfterOutput } from '../../kubelet/container-process.ts'

test('a process whose last output arrives with its end has ended when its output is read', async () => {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()]
  stdout.end('printed\n')
  stderr.end('complained\n')
  let seen = ''
  for (const output of [stdout, stderr])
    output.setEncoding('utf8').on('data', (text: string) => {
      seen += text
    })
  const end = await endAfterOutput({ stdout, stderr, exited: Promise.resolve({ exitCode: 3 }) })
  expect(end).toEqual({ exitCode: 3 })
  expect(seen).toBe('printed\ncomplained\n')
})
