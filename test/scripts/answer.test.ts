import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { projectRoot } from '../../host/layout.ts'

/**
 * `make answer …` where no cluster is up. The packages that this test itself runs from stay, even
 * if the lock file is newer.
 */
function answer(...args: string[]): Promise<{ code: number; stderr: string }> {
  const env = { ...process.env, NAME: 'not-there', CLUSTER: 'embedded', NO_COLOR: '1', LAB: '' }
  return new Promise((resolve) => {
    const options = ['-s', '-o', 'node_modules/.package-lock.json']
    execFile(
      'make',
      [...options, 'answer', ...args],
      { cwd: projectRoot, env },
      (error, _stdout, stderr) => {
        resolve({ code: typeof error?.code === 'number' ? error.code : 0, stderr })
      },
    )
  })
}

test.concurrent.each([
  [
    'a question that no lab asks',
    ['Q=nothing', 'A=x'],
    /No lab has the question "nothing"\. Questions: .*Q=chain-name/,
  ],
  ['no question', ['A=x'], /Q= must name a question.*Questions: (?!.*(Q=\S+),.* \1[,.])/],
  ['a step that asks nothing', ['Q=tools', 'A=x'], /Step "tools" of lab 2 has no question/],
  ['no answer', ['Q=chain-name'], /KUBE-SVC-.*\? Answer with: make answer LAB=1 Q=chain-name/],
  ['a number of a step', ['Q=1', 'LAB=2'], /Step "web" of lab 2 has no question|Answer with:/],
  ['a number without a lab', ['Q=1', 'A=x'], /"not-there" is not up: run `make up`/],
  ['a cluster that is not up', ['Q=chain-name', 'A=x'], /"not-there" is not up: run `make up`/],
])('%s is one sentence, not a stack', async (_what, args, sentence) => {
  const { code, stderr } = await answer(...args)
  expect(code).toBe(2)
  expect(stderr).toMatch(sentence)
  expect(stderr).not.toMatch(/^\s+at /m)
})

test('an answer is text that neither make nor the shell expands', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'answer-'))
  const file = join(folder, 'made')
  await answer(
    'Q=chain-name',
    `A=$(shell touch ${file}) $$(touch ${file}) \`touch ${file}\`; touch ${file} '"`,
  )
  expect(existsSync(file)).toBe(false)
  rmSync(folder, { recursive: true })
})
