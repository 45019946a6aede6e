import { ApiException } from '@kubernetes/client-node'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { ExitCode, main, Refusal } from '../../host/main.ts'
import { Trouble } from '../../host/trouble.ts'

let output = ''

beforeEach(() => {
  output = ''
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    output += text
    return true
  })
})

afterEach(() => {
  vi.restoreAllMocks()
  process.exitCode = undefined
})

const failing = (error: unknown) =>
  main(async () => {
    throw error
  })

test('the refusal of an API server is one sentence, without headers', async () => {
  const body = JSON.stringify({
    kind: 'Status',
    message: 'container "nginx" in pod "web-1" is terminated',
    code: 400,
  })
  await failing(
    new ApiException(400, 'Unknown API Status Code!', body, { 'content-type': 'application/json' }),
  )
  expect(output).toContain(
    'The API server answered 400: container "nginx" in pod "web-1" is terminated.\n',
  )
  expect(output.trim().split('\n')).toHaveLength(1)
  expect(process.exitCode).toBe(ExitCode.trouble)
})

test("an answer that is no Status is reported in the client's words", async () => {
  await failing(new ApiException(502, 'Bad Gateway', '<html>', {}))
  expect(output).toContain('502')
})

test("a user's mistake is reported as it is written, without a stack", async () => {
  await failing(new Refusal('"x" is no number of a lab.'))
  expect(output).toContain('"x" is no number of a lab.')
  expect(output).not.toContain(' at ')
})

test.each([
  ['a refusal', new Refusal('"x" is no port.'), '✗ "x" is no port.\n'],
  ['a trouble', new Trouble('The cluster has ended.'), '✗ The cluster has ended.\n'],
  [
    'a bug',
    new TypeError('x is not a function'),
    'This is a bug, not your mistake: x is not a function.',
  ],
  [
    'a lost connection',
    new TypeError('fetch failed', { cause: new Error('x') }),
    '✗ fetch failed\n',
  ],
])('%s is one sentence, and ends with exit code 2', async (_what, error, sentence) => {
  await failing(error)
  expect(output).toContain(sentence)
  expect(output.trim().split('\n')).toHaveLength(1)
  expect(process.exitCode).toBe(ExitCode.trouble)
})
