import { expect, test } from 'vitest'
import { filesOfLab } from '../../course/lint/course-files.ts'
import { filesOfStep } from '../../course/lint/new-step.ts'
import { factsIn, signaturesIn } from '../../course/lint/signatures.ts'
import { stepReference } from '../../course/lint/step-reference.ts'
import { listLabs, parseLab } from '../../grading/lab-definition.ts'

import { ID, readSource, withStep } from './made-step.ts'

test('a check that another function makes is shown whole, and classes are listed', () => {
  const { begun } = withStep('02-ipvs', 'scheduler')
  expect(begun).toContain('export const schedulerChosen = onceNoted(')
  expect(begun).toMatch(/export const schedulerChosen[\s\S]*?return scheduler\n {2}},\n\)\n/)
  expect(begun).toContain('- PastMoment extends NotApplicable: ')
  expect(begun).toContain('- onceSeen')
  expect(begun).toContain('export interface VirtualServer {')
})

test('a draft shows how the step before is written, and what a step can use', () => {
  const { begun } = withStep('03-from-outside', 'local-policy')
  const [, shown = ''] = begun.split('<!-- reference -->')
  for (const part of [
    'export async function clientIsKept(',
    'export function answeringNodesUnderLocal(',
    "    'local-policy': independent(",
    `  'local-policy': {\n    "the path to the node's own Pods is deleted"`,
    'title: Under policy Local the client',
    "import { expectServiceChains } from '../01-iptables/service-chains.ts'",
    '<!-- step: local-policy -->',
    'LB=$(kubectl get service web-lb',
    '- C8: externalTrafficPolicy Local',
    'async leave(bench) {',
    '- nodeCount(bench: LabBench): `kubectl get nodes`, counted.',
    '<!-- fence: 03-from-outside/local-policy#',
    'export interface CheckContext {',
    'interface ExposedService {',
    'export interface FailureDetail {',
    'export function readService(',
    '- localService(snapshot: Snapshot): ',
    '- sets(...names: [string, ...string[]]): PredictedPart: Sets of ipset by their names.',
    '- nodes(): Promise<{ name: string; address: string }[]>',
    '- nodePort: number: The node port of web-np.',
    "- deleteRule(chain: string, pattern: string, table = 'nat')",
  ])
    expect(shown).toContain(part)
  const without = listLabs().flatMap(({ folder, number }) => {
    const { definition } = filesOfLab(folder)
    const references = parseLab(readSource(definition), definition).steps.map(
      ({ id }) => [id, stepReference(number, id, filesOfStep(folder, ID), readSource)] as const,
    )
    expect(references.filter(([, text]) => text.includes('✎'))).toEqual([])
    return references.flatMap(([id, text]) =>
      /^````ts\n *[a-z']/m.test(text.split('\n## The variables')[0] ?? '') ? [] : `${folder}/${id}`,
    )
  })
  // Its id is a constant.
  expect(without).toEqual(['08-incidents/diagnosis'])
})

test('what a module declares is listed with its parameters and its first sentence', () => {
  const source = [
    '/** Two things. The rest. */',
    'export function both<One>(',
    '  one: One,',
    '  other = { a: 1 },',
    '): { one: One } {',
    '  inner(1)',
    '}',
    'function inner(n: number) {}',
    '/** `make web` */',
    'export const web: Step = {',
    '}',
    'export const arrow =',
    '  (n: number) => n',
    'export class Kept {',
    '  constructor(readonly n: number) {}',
    '  /** Reads it. */',
    '  async read(): Promise<{ a: string; b: string }> {',
    '    if (this.n) return this.read()',
    '  }',
    '}',
    'export interface Facts {',
    '  /** A port. */',
    '  port: number',
    '  name: string',
    '}',
    '',
  ].join('\n')
  expect(signaturesIn(source)).toEqual([
    'both(one: One, other = { a: 1 }): { one: One }: Two things.',
    'web: `make web`',
    'arrow(n: number)',
    'read(): Promise<{ a: string; b: string }>: Reads it.',
  ])
  expect(factsIn(source)).toEqual(['port: number: A port.', 'name: string'])
  expect(signaturesIn('export function open(\n')).toEqual(['open'])
})
