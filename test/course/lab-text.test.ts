import { expect, test } from 'vitest'
import { parseLabText, partsInOrder, withPaths } from '../../course/lab-text.ts'

const text = `# Lab 9

> **Recall.** Which chain is first?
> \`make answer LAB=9 Q=recall-chain A=…\`

## 1. Sets

<!-- step: sets -->

> **Predict.** How many members will KUBE-CLUSTER-IP
> have after twenty more Services?
> \`make answer LAB=9 Q=sets A=…\`

> A quotation that asks nothing?

\`\`\`bash
make web
\`\`\`

> **Question.** Which counters grow? \`INPUT\` · \`OUTPUT\`
> \`make answer LAB=9 Q=sets A=…\`

**What you saw.** Members.

**Before you go on.** Needed later:

\`\`\`bash
WEB=1
\`\`\`
`

test('blockquotes that ask are read with their choices and commands, in the order of what a reader types', () => {
  const read = parseLabText(text, 'README.md')
  expect(read.quotes).toEqual([
    {
      kind: 'recall',
      ask: 'Which chain is first?',
      choices: [],
      command: 'make answer LAB=9 Q=recall-chain A=…',
      line: 3,
    },
    {
      kind: 'predict',
      ask: 'How many members will KUBE-CLUSTER-IP have after twenty more Services?',
      choices: [],
      command: 'make answer LAB=9 Q=sets A=…',
      step: 'sets',
      line: 10,
    },
    {
      kind: 'question',
      ask: 'Which counters grow?',
      choices: ['INPUT', 'OUTPUT'],
      command: 'make answer LAB=9 Q=sets A=…',
      step: 'sets',
      line: 20,
    },
  ])
  const kinds = partsInOrder(read).map((part) => ('kind' in part ? part.kind : part.commands))
  expect(kinds).toEqual(['recall', 'predict', 'make web', 'question', 'WEB=1'])
})

test('what later steps need is no part of the explanation', () => {
  const { task = '', seen, onward } = parseLabText(text, 'README.md').sections.get('sets') ?? {}
  expect(task).toContain('**Question.**')
  expect(task).not.toContain('Members.')
  expect(seen?.trim()).toBe('**What you saw.** Members.')
  expect(onward).toContain('WEB=1')
})

test('the end of a lab is all that follows its last step, with every heading', () => {
  const end = '## What you take home\n\nSets.\n\n## References\n\n- KEP-1'
  expect(parseLabText(`${text}\n${end}\n`, 'README.md').outro).toBe(end)
  expect(parseLabText(text, 'README.md').outro).toBe('')
})

test('in a guide a link to a file is its path, and one to a site stays', () => {
  const shown = (link: string) => withPaths(`See ${link}.`, '09-leaving-ipvs')
  expect(shown('[CARD.md](CARD.md)')).toBe('See `labs/09-leaving-ipvs/CARD.md`.')
  expect(shown('[docs/leaving-ipvs](../../docs/leaving-ipvs/README.md#why)')).toBe(
    'See `docs/leaving-ipvs/README.md`.',
  )
  expect(shown('[how](../../docs/migration-report.md)')).toBe(
    'See how (`docs/migration-report.md`).',
  )
  expect(shown('[a site](https://example.org/a)')).toBe('See [a site](https://example.org/a).')
})
