import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type Chain,
  parseIptablesSave,
  printIptablesSave,
  type Ruleset,
} from '../../dataplane/iptables-save.ts'
import { ParseError } from '../../dataplane/program-output.ts'
import { timeoutScale } from '../../host/wait.ts'
import { recordedFiles } from './recordings.ts'

function fault(text: string): ParseError {
  try {
    parseIptablesSave(text)
  } catch (error) {
    if (error instanceof ParseError) return error
    throw error
  }
  throw new Error('the text was read without a fault')
}

const chainName = fc.stringMatching(/^[A-Z][A-Z0-9-]{0,27}$/)
const counter = fc.nat()
const rule = fc
  .record({ spec: fc.stringMatching(/^(|-[a-z] [ -~]*[!-~])$/), packets: counter, bytes: counter })
  .map(({ spec, packets, bytes }) => ({ spec, packets, bytes }))
const chain: fc.Arbitrary<Chain> = fc.record({
  name: chainName,
  policy: fc.constantFrom('-', 'ACCEPT', 'DROP'),
  packets: counter,
  bytes: counter,
  rules: fc.array(rule, { maxLength: 5 }),
})
const ruleset: fc.Arbitrary<Ruleset> = fc
  .uniqueArray(fc.tuple(fc.constantFrom('nat', 'filter', 'mangle', 'raw'), fc.array(chain)), {
    selector: ([name]) => name,
  })
  .map(
    (tables) =>
      new Map(
        tables.map(([name, chains]) => [name, new Map(chains.map((each) => [each.name, each]))]),
      ),
  )

/** Time of a processor, so that other processes on a busy machine do not count. */
function millisecondsSince(start: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(start)
  return (user + system) / 1000
}

describe('iptables-save', () => {
  test('prints every recording unchanged', () => {
    const recordings = [...recordedFiles('iptables-save'), ...recordedFiles('ip6tables-save')]
    expect(recordings.length).toBeGreaterThan(100)
    for (const { path, text } of recordings) {
      // Rules of KUBE-IPVS-OUT-FILTER that were taken from what kube-proxy gave to iptables-restore
      // are at the end of a table.
      const order = (printed: string) =>
        text.includes('-A KUBE-IPVS-OUT-FILTER') ? printed.split('\n').sort().join('\n') : printed
      // iptables-save adds dated lines.
      expect(order(printIptablesSave(parseIptablesSave(text))), path).toBe(
        order(text.replace(/^#.*\n/gm, '')),
      )
    }
  })

  test('reads what it prints, with and without counters', () => {
    fc.assert(
      fc.property(ruleset, (rules) => {
        expect(parseIptablesSave(printIptablesSave(rules, { counters: true }))).toEqual(rules)
      }),
    )
  })

  test('keeps the later of two listings of one table, as iptables-restore does', () => {
    const text =
      '*nat\n:A - [0:0]\n-A A -j ACCEPT\nCOMMIT\n*filter\nCOMMIT\n*nat\n:B - [0:0]\nCOMMIT\n'
    const rules = parseIptablesSave(text)
    expect([...rules.keys()]).toEqual(['nat', 'filter'])
    expect([...(rules.get('nat')?.keys() ?? [])]).toEqual(['B'])
  })

  test('reads rules with counters and warning lines', () => {
    const text = [
      '# Warning: iptables-legacy tables present, use iptables-legacy-save to see them',
      '*nat',
      ':PREROUTING ACCEPT [12:3456]',
      '[7:420] -A PREROUTING -m comment --comment "a \\"b\\" COMMIT" -j ACCEPT',
      'COMMIT',
      '',
    ].join('\r\n')
    const chain = parseIptablesSave(text).get('nat')?.get('PREROUTING')
    expect(chain).toEqual({
      name: 'PREROUTING',
      policy: 'ACCEPT',
      packets: 12,
      bytes: 3456,
      rules: [
        { spec: '-m comment --comment "a \\"b\\" COMMIT" -j ACCEPT', packets: 7, bytes: 420 },
      ],
    })
  })

  test.each([
    ['a rule outside a table', '-A INPUT -j DROP\n', 1],
    ['a chain outside a table', ':INPUT ACCEPT [0:0]\n', 1],
    ['a rule of an undeclared chain', '*nat\n-A INPUT -j DROP\nCOMMIT\n', 2],
    ['a chain declared twice', '*nat\n:A - [0:0]\n:A - [0:0]\nCOMMIT\n', 3],
    ['a table in a table', '*nat\n*filter\n', 2],
    ['counters that are none', '*nat\n:A - [x:0]\nCOMMIT\n', 2],
    ['an error message', 'iptables-save: Permission denied (you must be root)\n', 1],
    ['another command', '*nat\n:A - [0:0]\n-I A -j DROP\nCOMMIT\n', 3],
    ['a cut capture', '*nat\n:A - [0:0]\n-A A -j DR', 4],
  ])('refuses %s and names the line', (_, text, line) => {
    expect(fault(text).line).toBe(line)
  })

  test('quotes a line that it cannot read, truncated and without control characters', () => {
    const error = fault(`*nat\n\x1b[2Jhello ${'x'.repeat(100_000)}\nCOMMIT\n`)
    expect(error.message).toContain('line 2')
    expect(error.message).toContain('\\x1b[2Jhello')
    expect(error.message.length).toBeLessThan(400)
  })

  test('throws no error except ParseError for any text', () => {
    const piece = fc.constantFrom(
      '*nat',
      'COMMIT',
      ':A - [0:0]',
      '-A A -j B',
      '[1:2] -A A',
      '#',
      '\0',
      '[',
      '-A',
      ':',
      '',
    )
    const hostile = fc.oneof(
      fc.string(),
      fc.array(fc.oneof(piece, fc.string())).map((lines) => lines.join('\n')),
    )
    fc.assert(
      fc.property(hostile, (text) => {
        try {
          parseIptablesSave(text)
        } catch (error) {
          expect(error).toBeInstanceOf(ParseError)
        }
      }),
    )
  })

  test('reads 430,000 lines in under a second', () => {
    const chains = 36_000
    const names = Array.from(
      { length: chains },
      (_, index) => `KUBE-SVC-${String(index).padStart(16, '0')}`,
    )
    const rules = names.flatMap((name) => {
      return Array.from(
        { length: 11 },
        (_, index) => `-A ${name} -m comment --comment "a/b" -j KUBE-SEP-${index}`,
      )
    })
    const text = ['*nat', ...names.map((name) => `:${name} - [0:0]`), ...rules, 'COMMIT', ''].join(
      '\n',
    )
    let best = Number.POSITIVE_INFINITY
    for (let run = 0; run < 5 && best >= 1000; run++) {
      const started = process.cpuUsage()
      expect(parseIptablesSave(text).get('nat')?.size).toBe(chains)
      best = Math.min(best, millisecondsSince(started))
    }
    expect(best).toBeLessThan(1000)
  })

  test('reads one very long line in linear time', () => {
    const line = `-A A ${'-m comment --comment "'.repeat(200_000)}`
    const started = process.cpuUsage()
    expect(
      parseIptablesSave(`*nat\n:A - [0:0]\n${line}\nCOMMIT\n`).get('nat')?.get('A')?.rules,
    ).toHaveLength(1)
    expect(millisecondsSince(started)).toBeLessThan(500 * timeoutScale())
  })
})
