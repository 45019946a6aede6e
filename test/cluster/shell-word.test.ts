import { execFileSync } from 'node:child_process'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { shellWord } from '../../host/shell-word.ts'

test('sh reads each text as one word, unchanged', () => {
  // No argument holds a NUL byte; the other separates the answers.
  const text = fc.string({ unit: 'grapheme' }).filter((drawn) => !drawn.includes('\0') && !drawn.includes('\x1e'))
  const texts = [...fc.sample(text, 200), "'", "''\\'", '$(id) `id` $HOME "', 'a\nb', '', '-n', '*']
  const script = `for word in ${texts.map(shellWord).join(' ')}; do printf '%s\\036' "$word"; done`
  const said = execFileSync('sh', ['-c', script], { encoding: 'utf8' })
  expect(said.split('\x1e').slice(0, -1)).toEqual(texts)
})
