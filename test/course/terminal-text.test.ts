import stringWidth from 'string-width'
import { describe, expect, test } from 'vitest'
import { blockLines } from '../../course/guide/guide-lines.ts'
import { placeBlock, startGuide } from '../../course/guide/guide-state.ts'
import { layoutMarkdown, layoutParts, PLAIN, type Style } from '../../course/guide/terminal-text.ts'
import { type GuideLab, startProgress } from '../../course/lab-progress.ts'
import { readLabText } from '../../course/lab-text.ts'
import { listLabs, readLab } from '../../grading/lab-definition.ts'

const STYLED: Style = {
  // As chalk does it, which prints all that it is given.
  strong: (...texts: string[]) => `\x1b[1m${texts.join(' ')}\x1b[22m`,
  emphasis: (text) => `\x1b[3m${text}\x1b[23m`,
  code: (text) => `\x1b[36m${text}\x1b[39m`,
  dim: (text) => `\x1b[2m${text}\x1b[22m`,
}
const WIDTHS = [40, 60, 80, 200]
const rowsOf = (markdown: string, width: number, style = PLAIN) =>
  layoutMarkdown(markdown, width, style)

describe.each(WIDTHS)('at %i columns', (width) => {
  test.each(listLabs())('only words, commands and code of lab $number are wider', ({ folder }) => {
    const { intro, outro, sections } = readLabText(folder)
    const parts = [...sections.values()].flatMap(({ task, seen }) => [task, seen])
    const rows = [intro, outro, ...parts].flatMap((text) => layoutMarkdown(text, width, STYLED))
    const isWhole = (text: string) => text.includes('\x1b[36m') || !/\S\s+\S/.test(text)
    expect(rows.filter((text) => stringWidth(text) > width && !isWhole(text))).toEqual([])
  })

  test('wide characters take two columns', () => {
    const rows = rowsOf(`und 🐳 ${'数据平面 '.repeat(20)}`, width)
    for (const row of rows) expect(stringWidth(row)).toBeLessThanOrEqual(width)
    expect(rows.join('').replace(/\s/g, '')).toBe(`und🐳${'数据平面'.repeat(20)}`)
  })

  test('a command is one line, however wide the screen', () => {
    const command = `make exec NODE=$DIRECTOR CMD="ipvsadm -A -t 192.0.2.10:8090 -s rr; for W in $W1 $W2; do ipvsadm; done"`
    expect(rowsOf(`\`\`\`bash\n${command}\n\`\`\``, width)).toEqual([`    ${command}`])
    expect(rowsOf(`Run it once more, on each worker: \`${command}\`.`, width).join('\n')).toContain(
      command,
    )
  })

  test('the lines of a block of commands keep their indentation', () => {
    const lines = ['for W in $W1 $W2; do', `  make exec NODE=$W CMD="${'x'.repeat(200)}"`, 'done']
    expect(rowsOf(`\`\`\`bash\n${lines.join('\n')}\n\`\`\``, width)).toEqual(
      lines.map((line) => `    ${line}`),
    )
  })
})

test('words stay whole and lines are filled again', () => {
  expect(rowsOf('one two\nthree four\n\nfive', 40)).toEqual(['one two three four', '', 'five'])
  for (const row of rowsOf(readLabText('02-ipvs').intro, 40))
    expect(row).not.toMatch(/\bSer$|^vices/)
})

test('what a text asks has its choices and its command in lines of their own', () => {
  const command = "make answer LAB=2 Q=web A='…'"
  const asked = `> **Predict.** Which one\n> is it?\n> \`rr\` · \`wrr\`\n> \`${command}\``
  expect(rowsOf(asked, 80)).toEqual(['Predict. Which one is it?', 'rr · wrr', command])
  expect(rowsOf('> As in\n> `ipvs`.', 80)).toEqual(['As in ipvs.'])
})

test('marks become styles, and no mark is left', () => {
  expect(rowsOf('**What** you _saw_: `make`', 80, STYLED)).toEqual([
    '\x1b[1mWhat\x1b[22m you \x1b[3msaw\x1b[23m: \x1b[36mmake\x1b[39m',
  ])
  expect(rowsOf('**What** you _saw_: `make` <!-- note -->', 80)[0]).toBe('What you saw: make')
})

describe('a table', () => {
  const table =
    '| mode | where it looks |\n|---|---|\n| ipvs | 集合 in a hash table |\n| iptables | a list |'

  test('has columns that line up', () => {
    expect(rowsOf(table, 80)).toEqual([
      'mode      where it looks',
      '────────  ────────────────────',
      'ipvs      集合 in a hash table',
      'iptables  a list',
    ])
  })

  test('has a head in bold', () => {
    expect(rowsOf(table, 80, STYLED)[0]?.replaceAll(/\x1b\[\d+m/g, '')).toBe(
      'mode      where it looks',
    )
  })

  test('breaks in its cells, and is a list where its words have no room', () => {
    expect(rowsOf(table, 24)).toEqual([
      'mode      where it looks',
      '────────  ──────────────',
      'ipvs      集合 in a hash',
      '          table',
      'iptables  a list',
    ])
    const wide = `| ${'a b c'.split(' ').join(' | ')} |\n|${'---|'.repeat(3)}\n| \`${'x '.repeat(9)}y\` | \`${'z '.repeat(9)}y\` | 3 |`
    expect(rowsOf(wide, 40)).toEqual([`a: ${'x '.repeat(9)}y`, `b: ${'z '.repeat(9)}y`, 'c: 3'])
  })
})

test('lists hang, and labels have a column of their own where there is room', () => {
  expect(rowsOf('- one two three\n- four', 11)).toEqual(['• one two', '  three', '• four'])
  const parts = [{ label: 'found', text: 'nothing at all' }]
  expect(layoutParts(parts, 80, PLAIN)).toEqual(['found     nothing at all'])
  expect(layoutParts(parts, 40, PLAIN)).toEqual(['found', '  nothing at all'])
})

describe('the text of a step', () => {
  const definition = readLab(2)
  const { intro, outro, card, sections } = readLabText(definition.folder)
  const lab: GuideLab = {
    definition,
    intro,
    outro,
    card,
    steps: definition.steps.map((step) => ({
      definition: step,
      task: '',
      seen: '',
      ...sections.get(step.id),
      hints: step.hints,
      solution: [],
    })),
  }
  const number = definition.steps.findIndex(({ id }) => id === 'output') + 1
  const note = { at: 'output', workedMs: 0, shown: [], held: [], passed: [] }
  const state = startGuide(startProgress(lab, note, new Map()))

  test('is printed with its title and the commands, without control characters', () => {
    const text = blockLines(placeBlock(state), 80, PLAIN).join('\n')
    expect(text).not.toContain('\x1b')
    expect(text).toContain(`${number}. Follow a packet from the node`)
    expect(text).toMatch(new RegExp(`Lab 2: .* step ${number} of \\d+ · 0/100 points`))
    expect(text).toContain('Done when:')
    expect(text).toMatch(/h hint, .*q quit\./s)
  })

  test('contains every command of the lab as it is in its README', () => {
    for (const { folder } of listLabs()) {
      const { fences, sections } = readLabText(folder)
      const texts = [...sections.values()].flatMap(({ task, seen, onward }) => [task, seen, onward])
      const printed = texts.flatMap((markdown) => layoutMarkdown(markdown, 40, PLAIN))
      const lines = new Set(printed.map((line) => line.trim()))
      const commands = fences.flatMap(({ step, commands: of }) => (step ? of.split('\n') : []))
      expect(commands.filter((command) => !lines.has(command.trim()))).toEqual([])
    }
  })
})
