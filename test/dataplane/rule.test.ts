import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseIptablesSave } from '../../dataplane/iptables-save.ts'
import {
  commentOf,
  normaliseSpec,
  type ParsedRule,
  parseRule,
  printRule,
  targetOf,
} from '../../dataplane/rule.ts'
import { recordedFiles } from './recordings.ts'

const specs = new Set(
  [...recordedFiles('iptables-save'), ...recordedFiles('ip6tables-save')].flatMap(({ text }) =>
    [...parseIptablesSave(text).values()].flatMap((table) =>
      [...table.values()].flatMap((chain) => chain.rules.map((rule) => rule.spec)),
    ),
  ),
)

function read(spec: string): ParsedRule {
  const rule = parseRule(spec)
  if (!rule) throw new Error(`"${spec}" is not a rule`)
  return rule
}

describe('parseRule', () => {
  test('reads every recorded rule, and prints it unchanged', () => {
    expect(specs.size).toBeGreaterThan(500)
    expect([...specs].filter((spec) => printRule(read(spec)) !== spec)).toEqual([])
  })

  test('returns typed fields with their negation', () => {
    const rule = read(
      '! -s 10.244.0.0/16 -d 10.96.0.1/32 -i veth+ -p tcp -m comment --comment "a \\"b\\"" -m tcp ! --dport 443 -j MARK --set-xmark 0x4000/0x4000',
    )
    expect(rule.source).toEqual({ negated: true, value: '10.244.0.0/16' })
    expect(rule.destination).toEqual({ negated: false, value: '10.96.0.1/32' })
    expect(rule.inInterface).toEqual({ negated: false, value: 'veth+' })
    expect(rule.matches.map(({ name }) => name)).toEqual(['comment', 'tcp'])
    expect(rule.matches[0]?.options.get('--comment')).toEqual({ negated: false, value: ['a "b"'] })
    expect(rule.matches[1]?.options.get('--dport')).toEqual({ negated: true, value: ['443'] })
    expect(rule.target).toMatchObject({ name: 'MARK', goto: false })
    expect(rule.target?.options.get('--set-xmark')?.value).toEqual(['0x4000/0x4000'])
  })

  test('reads other spellings and prints that of iptables-save', () => {
    expect(normaliseSpec('-p tcp -j DROP -s 10.0.0.1/32')).toBe('-s 10.0.0.1/32 -p tcp -j DROP')
    expect(normaliseSpec('-p tcp --dport 80 -j ACCEPT')).toBe('-p tcp -m tcp --dport 80 -j ACCEPT')
    expect(normaliseSpec('-p udp -m comment --comment x --dport 80')).toBe(
      '-p udp -m comment --comment x -m udp --dport 80',
    )
    expect(normaliseSpec('-p tcp --tcp-option 7 -j DROP')).toBe(
      '-p tcp -m tcp --tcp-option 7 -j DROP',
    )
    expect(normaliseSpec('-j DROP -p tcp --dport 80 -m comment --comment x')).toBe(
      '-p tcp -m tcp --dport 80 -m comment --comment x -j DROP',
    )
    expect(normaliseSpec('-p tcp -j REDIRECT --to-ports 81 --dport 80')).toBe(
      '-p tcp -m tcp --dport 80 -j REDIRECT --to-ports 81',
    )
    expect(normaliseSpec('-m nfacct --nfacct-name ct_state -j DROP')).toBe(
      '-m nfacct --nfacct-name  ct_state -j DROP',
    )
  })

  test('keeps unknown matches and options as text, and refuses text that is not a rule', () => {
    const spec = '-m bpf --bytecode "4,48 0 0 9" -m tcp --novelty 7 -j TEE --gateway 10.0.0.1'
    expect(printRule(read(spec))).toBe(spec)
    for (const text of [
      '-m comment --comment "open',
      '-s',
      '-p tcp !',
      'DROP',
      '--dport 80',
      '-m comment --comment',
    ])
      expect(parseRule(text)).toBeUndefined()
  })

  test('prints and reads any comment', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (comment) => {
        const rule = read('-m comment --comment x -j DROP')
        rule.matches[0]?.options.set('--comment', { negated: false, value: [comment] })
        const text = printRule(rule)
        expect(parseRule(text)).toEqual(rule)
        expect(commentOf(text)).toBe(comment)
        expect(targetOf(text)).toBe('DROP')
      }),
    )
  })

  test('throws no error for any text', () => {
    const word = fc.constantFrom(
      '-m',
      '-j',
      '!',
      '-s',
      '--dport',
      'tcp',
      '-p',
      '"',
      '\\',
      'set',
      '--match-set',
      '--',
      '-',
    )
    fc.assert(
      fc.property(fc.array(fc.oneof(word, fc.string())), (args) => {
        const rule = parseRule(args.join(' '))
        return rule === undefined || parseRule(printRule(rule)) !== undefined
      }),
    )
  })
})
