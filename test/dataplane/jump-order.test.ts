import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { compareNodeState, type Difference } from '../../dataplane/compare.ts'
import type { Rule } from '../../dataplane/iptables-save.ts'
import { targetOf } from '../../dataplane/rule.ts'
import { recordedFolders, stateAt } from './recordings.ts'

const iptables = 'v1.30.3/iptables/random-20'
const ipvs = 'v1.30.3/ipvs/random-20'
const agent =
  '-m addrtype ! --dst-type LOCAL -m comment --comment "kind-masq-agent: to our custom KIND-MASQ-AGENT chain" -j KIND-MASQ-AGENT'

/** What is found when the rules of one built-in chain of a genuine recording are changed. */
function changed(
  folder: string,
  [table, chain]: [string, string],
  change: (rules: Rule[]) => void,
  untouched = true,
): Difference[] {
  const actual = stateAt(folder)
  const rules = actual.iptables.get(table)?.get(chain)?.rules
  if (!rules) throw new Error(`the recording has no ${table} ${chain}`)
  change(rules)
  const mode = folder === ipvs ? 'ipvs' : 'iptables'
  return compareNodeState(stateAt(folder), actual, { mode, untouched })
}

const toBottom = (target: string) => (rules: Rule[]) => {
  const at = rules.findIndex(({ spec }) => targetOf(spec) === target)
  rules.push(...rules.splice(at, 1))
}

const toTop = (target: string) => (rules: Rule[]) => {
  const at = rules.findIndex(({ spec }) => targetOf(spec) === target)
  rules.unshift(...rules.splice(at, 1))
}

describe('the order of jumps in built-in chains', () => {
  test.each([
    [iptables, ['filter', 'INPUT'], 'KUBE-PROXY-FIREWALL'],
    [iptables, ['filter', 'FORWARD'], 'KUBE-SERVICES'],
    [iptables, ['filter', 'OUTPUT'], 'KUBE-PROXY-FIREWALL'],
    [ipvs, ['filter', 'INPUT'], 'KUBE-IPVS-FILTER'],
  ] as [string, [string, string], string][])(
    '%s %s: a jump to %s at the bottom is out of order',
    (folder, place, target) => {
      const [difference, ...more] = changed(folder, place, toBottom(target))
      expect(more).toEqual([])
      expect(difference).toMatchObject({
        kind: 'order',
        where: { table: place[0], chain: place[1] },
      })
      expect(difference?.text).toMatch(
        new RegExp(`a jump is out of order: -A ${place[1]} .*-j KUBE-`),
      )
    },
  )

  test('is not compared on a node whose mode was switched or whose jumps were restored', () =>
    expect(changed(iptables, ['filter', 'INPUT'], toBottom('KUBE-PROXY-FIREWALL'), false)).toEqual(
      [],
    ))

  test('may have a jump that the kubelet or the other mode also creates below the others, but not above', () => {
    for (const [chain, target] of [
      ['FORWARD', 'KUBE-FORWARD'],
      ['INPUT', 'KUBE-FIREWALL'],
    ] as const)
      expect(changed(iptables, ['filter', chain], toBottom(target))).toEqual([])
    const [above] = changed(iptables, ['filter', 'FORWARD'], toTop('KUBE-FORWARD'))
    expect(above).toMatchObject({ kind: 'order' })
  })

  test('has KUBE-POSTROUTING above the masquerade agent, which appends its jump', () => {
    for (const untouched of [true, false]) {
      const append = (rules: Rule[]) => rules.push({ spec: agent })
      expect(changed(iptables, ['nat', 'POSTROUTING'], append, untouched)).toEqual([])
      const [below] = changed(
        iptables,
        ['nat', 'POSTROUTING'],
        (rules) => rules.unshift({ spec: agent }),
        untouched,
      )
      expect(below).toMatchObject({ kind: 'order', where: { table: 'nat', chain: 'POSTROUTING' } })
    }
  })

  test('does not depend on rules of other programs between the jumps', () => {
    const foreign = fc.constantFrom(
      '-d 172.18.0.1/32 -j DOCKER_OUTPUT',
      '-m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ',
      '-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
      '-j FORWARD_direct',
      '-i lo -j ACCEPT',
      '-m comment --comment "cali:_S9a1HhQ" -j cali-FORWARD',
    )
    const place = fc.constantFrom<[string, string]>(
      ['filter', 'INPUT'],
      ['filter', 'FORWARD'],
      ['filter', 'OUTPUT'],
      ['nat', 'PREROUTING'],
      ['nat', 'OUTPUT'],
      ['nat', 'POSTROUTING'],
    )
    const folder = fc.constantFrom(iptables, ipvs)
    fc.assert(
      fc.property(
        folder,
        place,
        fc.array(fc.tuple(foreign, fc.nat(8)), { maxLength: 6 }),
        (where, chain, added) => {
          const insert = (rules: Rule[]) => {
            for (const [spec, at] of added) rules.splice(at, 0, { spec })
          }
          expect(changed(where, chain, insert)).toEqual([])
        },
      ),
      { numRuns: 100 },
    )
  })

  test('is as predicted on every recorded kind node', () => {
    const nodes = recordedFolders.filter((folder) => folder.startsWith('kind-'))
    expect(nodes.length).toBeGreaterThan(10)
    for (const folder of nodes) {
      const actual = stateAt(folder)
      const mode = actual.virtualServers.length > 0 ? 'ipvs' : 'iptables'
      const expected = stateAt(`v1.20.2/${mode}/web-nodeport`)
      const differences = compareNodeState(expected, actual, { mode, untouched: true })
      expect(differences.filter(({ kind, where }) => kind === 'order' && 'chain' in where)).toEqual(
        [],
      )
    }
  })
})

describe('the last rules of KUBE-SERVICES', () => {
  test('jump to KUBE-NODEPORTS for each address of nodePortAddresses, in any order', () => {
    const tail = (address: string) => ({
      spec: `-d ${address}/32 -m comment --comment "nodeports" -j KUBE-NODEPORTS`,
    })
    const state = (...addresses: string[]) => {
      const state = stateAt(iptables)
      state.iptables
        .get('nat')
        ?.get('KUBE-SERVICES')
        ?.rules.splice(-1, 1, ...addresses.map(tail))
      return state
    }
    const [one, other] = ['127.0.0.1', '172.18.0.3']
    expect(compareNodeState(state(one, other), state(other, one), { mode: 'iptables' })).toEqual([])
    const wrong = state(other, one)
    const rules = wrong.iptables.get('nat')?.get('KUBE-SERVICES')?.rules ?? []
    rules.unshift(...rules.splice(-1))
    const differences = compareNodeState(state(one, other), wrong, { mode: 'iptables' })
    expect(differences.map(({ kind }) => kind)).toContain('order')
  })
})
