import stringWidth from 'string-width'
import { describe, expect, test } from 'vitest'
import { startGuide } from '../../course/guide/guide-state.ts'
import { drawScreen, plainLines } from '../../course/guide/guide-view.ts'
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
  layoutMarkdown(markdown, width, style).map(({ text }) => text)

describe.each(WIDTHS)('at %i columns', (width) => {
  test.each(listLabs())('no row of lab $number is wider', ({ folder }) => {
    const { intro, outro, sections } = readLabText(folder)
    const parts = [...sections.values()].flatMap(({ task, seen }) => [task, seen])
    const rows = [intro, outro, ...parts].flatMap((text) => layoutMarkdown(text, width, STYLED))
    expect(rows.filter(({ text }) => stringWidth(text) > width)).toEqual([])
  })

  test('wide characters take two columns', () => {
    const rows = rowsOf(`${'服务网格'.repeat(30)} und 🐳 ${'数据平面 '.repeat(20)}`, width)
    for (const row of rows) expect(stringWidth(row)).toBeLessThanOrEqual(width)
    expect(rows.join('').replace(/\s/g, '')).toBe(
      `${'服务网格'.repeat(30)}und🐳${'数据平面'.repeat(20)}`,
    )
  })

  test('a command is one line, however wide the screen', () => {
    const command = `make exec NODE=$DIRECTOR CMD="ipvsadm -A -t 192.0.2.10:8090 -s rr; for W in $W1 $W2; do ipvsadm; done"`
    const rows = layoutMarkdown(`\`\`\`bash\n${command}\n\`\`\``, width, PLAIN)
    expect(
      rows
        .map(({ text }) => text)
        .join('')
        .trim(),
    ).toBe(command)
    expect(rows.slice(1).every(({ joined }) => joined)).toBe(true)
  })
})

test('words stay whole and lines are filled again', () => {
  expect(rowsOf('one two\nthree four\n\nfive', 40)).toEqual(['one two three four', '', 'five'])
  for (const row of rowsOf(readLabText('02-ipvs').intro, 40))
    expect(row).not.toMatch(/\bSer$|^vices/)
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

  test('breaks in its cells, and is a list where there is no room for that', () => {
    expect(rowsOf(table, 24)).toEqual([
      'mode      where it looks',
      '────────  ──────────────',
      'ipvs      集合 in a hash',
      '          table',
      'iptables  a list',
    ])
    const wide = `| ${'a b c d e f'.split(' ').join(' | ')} |\n|${'---|'.repeat(6)}\n| 1 | 2 | 3 | 4 | 5 | 6 |`
    expect(rowsOf(wide, 40)).toEqual(['a: 1', 'b: 2', 'c: 3', 'd: 4', 'e: 5', 'f: 6'])
  })
})

test('lists hang, and labels have a column of their own where there is room', () => {
  expect(rowsOf('- one two three\n- four', 11)).toEqual(['• one two', '  three', '• four'])
  const parts = [{ label: 'found', text: 'nothing at all' }]
  expect(layoutParts(parts, 80, PLAIN)).toEqual([{ text: 'found     nothing at all' }])
  expect(layoutParts(parts, 40, PLAIN)).toEqual([{ text: 'found' }, { text: '  nothing at all' }])
})

describe('the screen', () => {
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
  const note = { at: 'output', workedMs: 0, shown: [], held: [], passed: [] }
  const state = startGuide(startProgress(lab, note, new Map()))

  test.each([
    [40, 12],
    [60, 24],
    [80, 24],
    [110, 40],
    [200, 60],
  ])('fits %i columns and %i rows, and is scrolled to its end', (columns, rows) => {
    const top = drawScreen(state, { columns, rows }, STYLED)
    expect(top.rows).toHaveLength(rows)
    for (const { text } of top.rows) expect(stringWidth(text)).toBeLessThanOrEqual(columns)
    const bottom = drawScreen({ ...state, scroll: 10_000 }, { columns, rows }, PLAIN)
    expect(bottom.rows.map(({ text }) => text).join(' ')).toMatch(/Done when:|Pod's request is not/)
    expect(top.rows.at(-1)?.text).toContain('quit')
  })

  test('as plain lines tells only what is new, without control characters', () => {
    const lines = plainLines(state, undefined, 80, PLAIN)
    expect(lines.join('\n')).not.toContain('\x1b')
    expect(lines.join('\n')).toContain('15. Follow a packet from the node')
    expect(plainLines(state, state, 80, PLAIN)).toEqual([])
    expect(plainLines({ ...state, busy: 'Checking' }, state, 80, PLAIN)).toEqual(['… Checking …'])
  })
})
