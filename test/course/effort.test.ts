import { expect, test } from 'vitest'
import { parseLabText } from '../../course/lab-text.ts'
import { effortOf, isTrueTo } from '../../course/lint/effort.ts'
import { commandsOf } from '../../course/lint/thoughtless.ts'

const TEXT = `# Lab 7

${'word '.repeat(220)}

## 1. A step

<!-- step: one -->

> **Predict.** How many rules are there?
> \`make answer LAB=7 Q=one A='…'\`

\`\`\`bash timeout=120
make web
NODE=worker
make exec NODE=$NODE CMD='ip addr'
make answer LAB=7 Q=two A='…'
\`\`\`

**What you saw.** Nothing.
`
const text = parseLabText(TEXT, 'README.md')

test('minutes follow from words, commands, waits and questions', () => {
  const effort = effortOf(text, { unguided: 10 })
  expect(effort).toMatchObject({ commands: 3, waits: 1, questions: 2 })
  expect(effort.wordCount).toBeGreaterThan(220)
  // 2.2 + 2.25 + 1 + 3 + 10, in steps of five.
  expect(effort.minutes).toBe(20)
  expect([15, 20, 25, 30].map((stated) => isTrueTo(effort, stated))).toEqual([
    true,
    true,
    true,
    false,
  ])
})

test('an unthinking player answers nothing, and one kind of them runs only make targets', () => {
  const typed = (player: 'thoughtless' | 'make-only') =>
    commandsOf(player, text.fences).map(({ commands }) => commands)
  expect(typed('thoughtless')).toEqual([
    "make web\nNODE=worker\nmake exec NODE=$NODE CMD='ip addr'",
  ])
  expect(typed('make-only')).toEqual(["make web\nmake exec NODE=$NODE CMD='ip addr'"])
})
