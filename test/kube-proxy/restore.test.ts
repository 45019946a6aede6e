import { describe, expect, test } from 'vitest'
import { parseIpsetSave } from '../../dataplane/ipset-save.ts'
import type { Chain, Ruleset } from '../../dataplane/iptables-save.ts'
import { cleanup } from '../../dataplane/kube-proxy/cleanup.ts'
import { restoreNode } from '../../dataplane/kube-proxy/restore.ts'
import { applySwitch } from '../../dataplane/kube-proxy/switch.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { predict } from '../../dataplane/predict.ts'
import { folders, NODE, objectsAt, recordedConfig, recordingPath, stateAt } from './recordings.ts'
import { strictDifference } from './strict-difference.ts'

/** Reads the input of `iptables-restore --noflush` as the tool does, on a copy. Refuses what the kernel would refuse. */
function restoreIptables(present: Ruleset, text: string): Ruleset {
  const result: Ruleset = new Map(
    [...present].map(([name, table]) => [
      name,
      new Map([...table].map(([chain, value]) => [chain, { ...value, rules: [...value.rules] }])),
    ]),
  )
  let table = new Map<string, Chain>()
  const referenced = (chain: string) =>
    [...table.values()].some((other) => other.rules.some((rule) => rule.spec.endsWith(`-j ${chain}`)))
  const chainOf = (name: string) => {
    const chain = table.get(name)
    if (!chain) throw new Error(`no chain ${name}`)
    return chain
  }
  for (const line of text.split('\n').filter((one) => one !== '' && one !== 'COMMIT')) {
    const [command = '', name = '', ...rest] = line.split(' ')
    const spec = rest.join(' ')
    if (command.startsWith('*')) {
      table = result.get(command.slice(1)) ?? new Map()
      result.set(command.slice(1), table)
    } else if (command.startsWith(':')) table.set(command.slice(1), { name: command.slice(1), policy: '-', rules: [] })
    else if (command === '-A') chainOf(name).rules.push({ spec })
    else if (command === '-I') chainOf(name).rules.unshift({ spec })
    else if (command === '-D') {
      const at = chainOf(name).rules.findIndex((rule) => rule.spec === spec)
      if (at < 0) throw new Error(`no rule ${spec}`)
      chainOf(name).rules.splice(at, 1)
    } else if (command === '-X') {
      if (referenced(name) || chainOf(name).rules.length > 0) throw new Error(`${name} is in use`)
      table.delete(name)
    } else throw new Error(line)
  }
  return result
}

function restoreIpsets(state: NodeState, text: string): NodeState {
  const ipsets = new Map([...state.ipsets].map(([name, set]) => [name, { ...set, members: new Set(set.members) }]))
  for (const line of text.split('\n').filter((one) => one !== '')) {
    const [command, name = '', member = ''] = line.split(' ')
    if (command === 'create') for (const [key, set] of parseIpsetSave(`${line}\n`)) ipsets.set(key, set)
    else if (command === 'add') ipsets.get(name)?.members.add(member)
    else if (command === 'del') ipsets.get(name)?.members.delete(member)
    else if (command === 'destroy') ipsets.delete(name)
  }
  return { ...state, ipsets }
}

const missingSets = (state: NodeState): string[] =>
  [...state.iptables.values()].flatMap((table) =>
    [...table.values()].flatMap((chain) =>
      chain.rules.flatMap((rule) =>
        [...rule.spec.matchAll(/--match-set (\S+)/g)]
          .map((match) => match[1] ?? '')
          .filter((name) => !state.ipsets.has(name)),
      ),
    ),
  )

/** Follows a restore on a model of the node, checking on the way that no rule names a missing set. */
function follow(present: NodeState, target: NodeState): NodeState {
  const restore = restoreNode(target, present)
  let state = restoreIpsets(present, restore.ipsetRestoreBefore)
  state = { ...state, iptables: restoreIptables(state.iptables, restore.iptablesRestore) }
  expect(missingSets(state)).toEqual([])
  state = restoreIpsets(state, restore.ipsetDestroyAfter)
  expect(missingSets(state)).toEqual([])
  return { ...state, virtualServers: target.virtualServers, links: target.links }
}

const scenarios = folders('v1.30.3', 'iptables')
const prediction = (scenario: string, mode: 'iptables' | 'ipvs', version: string) =>
  predict(objectsAt('objects', `${scenario}.json`), { node: NODE, mode, version, config: recordedConfig() })

const virgin: NodeState = {
  iptables: new Map(
    Object.entries({
      filter: ['INPUT', 'FORWARD', 'OUTPUT'],
      nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
    }).map(([table, chains]) => [table, new Map(chains.map((name) => [name, { name, policy: 'ACCEPT', rules: [] }]))]),
  ),
  ipsets: new Map(),
  virtualServers: [],
  links: [],
}

describe('restore', () => {
  test.each(scenarios)('an untouched node gets what is predicted for %s', (scenario) => {
    for (const version of ['v1.20.2', 'v1.30.3'])
      for (const mode of ['iptables', 'ipvs'] as const) {
        const target = prediction(scenario, mode, version)
        const tables = ['nat', 'filter']
        expect(strictDifference(target, follow(virgin, target), { tables })).toEqual([])
      }
  })

  test('nothing is to be done where everything stands', () => {
    const target = prediction('random-20', 'ipvs', 'v1.30.3')
    expect(Object.values(restoreNode(target, target)).join('')).toBe('')
  })

  test.each(scenarios)('one change of objects rewrites only what differs: web-nodeport to %s', (scenario) => {
    for (const mode of ['iptables', 'ipvs'] as const) {
      const present = prediction('web-nodeport', mode, 'v1.30.3')
      const target = applySwitch(present, prediction(scenario, mode, 'v1.30.3'), { mode })
      expect(strictDifference(target, follow(present, target))).toEqual([])
      expect(restoreNode(target, present).iptablesRestore).not.toContain(':KUBE-SVC-NPX46M4PTMTKRN6Y')
    }
  })

  test.each(['v1.20.2', 'v1.30.3'])('a switch on a node of %s leaves the rules of others alone', (version) => {
    const present = stateAt(recordingPath('transitions', version, '1-iptables'))
    const objects = objectsAt('transitions', version, '2-iptables-then-ipvs', 'objects.json')
    const wanted = predict(objects, { node: NODE, mode: 'ipvs', version, config: recordedConfig() })
    const switched = applySwitch(present, wanted, { mode: 'ipvs' })
    expect(strictDifference(switched, follow(present, switched))).toEqual([])
    expect(restoreNode(switched, present).iptablesRestore).not.toContain('KIND-MASQ-AGENT')

    // A bare prediction as the target is what a flush wants: nothing of the other mode stays, all of others' does.
    const flushed = follow(switched, wanted)
    const ignore = (_table: string, chain: string) => chain === 'KIND-MASQ-AGENT' || chain === 'KUBE-FIREWALL'
    const tables = ['nat', 'filter']
    expect(strictDifference(wanted, flushed, { ignore, tables })).toEqual([])
    expect(flushed.iptables.get('nat')?.get('KIND-MASQ-AGENT')?.rules).toHaveLength(2)
  })

  test('virtual servers and addresses change one by one', () => {
    const present = prediction('web-nodeport', 'ipvs', 'v1.30.3')
    const target = prediction('web-affinity', 'ipvs', 'v1.30.3')
    const { ipvsadmRestore, ipBatch } = restoreNode(target, present)
    expect(
      ipvsadmRestore
        .split('\n')
        .filter((line) => line !== '')
        .sort(),
    ).toEqual(['-D -t 10.244.1.1:31730', '-D -t 172.18.0.3:31730', '-E -t 10.96.119.228:80 -s rr -p 600'])
    expect(ipBatch).toBe('')
    const lb = prediction('web-lb', 'ipvs', 'v1.30.3')
    expect(restoreNode(lb, target).ipBatch).toBe('addr add 172.18.255.200/32 dev kube-ipvs0\n')
    expect(restoreNode(target, lb).ipBatch).toBe('addr del 172.18.255.200/32 dev kube-ipvs0\n')
    expect(restoreNode(virgin, lb).ipBatch).toBe('link del kube-ipvs0\n')
    const first = target.virtualServers.find((server) => server.address === '10.96.119.228')
    if (!first) throw new Error('the virtual server of web is missing')
    const withReals = (realServers: typeof first.realServers) => ({
      ...target,
      virtualServers: [{ ...first, realServers }],
    })
    const one = withReals(first.realServers.slice(1))
    const all = withReals(first.realServers.map((real) => ({ ...real, weight: 3 })))
    expect(restoreNode(one, { ...one, virtualServers: [first] }).ipvsadmRestore).toBe(
      '-d -t 10.96.119.228:80 -r 10.244.1.6:80\n',
    )
    expect(restoreNode({ ...target, virtualServers: [first] }, all).ipvsadmRestore).toContain(
      '-e -t 10.96.119.228:80 -r 10.244.1.6:80 -m -w 1\n',
    )
  })

  test('cleaning up a virgin node changes nothing', () => {
    expect(strictDifference(virgin, cleanup(virgin, 'v1.30'))).toEqual([])
  })
})
