// The kind driver on what a genuine docker and kind printed, from the first `make up` to
// `make down`.
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { stopBalancer } from '../../cluster/kind/load-balancer/appliance.ts'
import { KindCluster } from '../../cluster/kind.ts'
import { kindFolder } from '../../host/layout.ts'
import { type EngineCall, RecordedEngine } from './recorded-engine.ts'

const NAME = 'e2e-kind'
const NODES = [`${NAME}-control-plane`, `${NAME}-worker`, `${NAME}-worker2`]
const engine = new RecordedEngine()
let cluster: KindCluster
let notes: string[]
const progress = {
  start: (title: string) => notes.push(title),
  end: () => {},
  note: (line: string) => notes.push(line),
}

/** Words of the calls that change something. */
const changes = (calls: string[]) =>
  calls.filter((call) =>
    /^(kind (create|delete|export|load)|docker (start|stop|unpause|rm|run))\b/.test(call),
  )
const wordsOf = ({ program, words }: EngineCall) => [program, ...words].join(' ')

beforeAll(async () => {
  await engine.start()
  vi.stubEnv('PATH', engine.path)
  const { calls } = engine.play('create')
  const { words = [] } = calls.find(({ words: [first] }) => first === 'create') ?? {}
  vi.stubEnv('IMAGE', words[words.indexOf('--image') + 1] ?? '')
  cluster = new KindCluster(NAME)
})
beforeEach(() => {
  notes = []
})
afterAll(async () => {
  await stopBalancer('docker', NAME).catch(() => {})
  vi.unstubAllEnvs()
  engine.stop()
  rmSync(kindFolder(NAME), { recursive: true, force: true })
})

/**
 * Runs a command of the driver on a phase of the run, which must have had each of its questions.
 */
async function replay(phase: string, action: 'up' | 'down') {
  const { calls } = engine.play(phase)
  await cluster[action](progress)
  expect(engine.unknown(), 'record again: RECORD=1 make e2e-kind').toEqual([])
  return { asked: engine.asked(), recorded: calls.map(wordsOf) }
}

test('creates a cluster with the words of the genuine run, and is up when its nodes are Ready', async () => {
  const { asked, recorded } = await replay('create', 'up')
  expect(changes(asked)).toEqual([...new Set(changes(recorded))])
  expect(await cluster.nodes()).toEqual(NODES)
  expect(await cluster.running()).toBe(true)
  expect(readFileSync(join(kindFolder(NAME), 'whole'), 'utf8')).toMatch(
    new RegExp(`^${NODES.map((node) => `${node} \\d+\\.\\d+\\.\\d+\\.\\d+\\n`).join('')}$`),
  )
})

test('finds it up the second time, and changes nothing', async () => {
  const { asked } = await replay('again', 'up')
  expect(changes(asked)).toEqual([])
  expect(notes).toEqual([`The kind cluster "${NAME}" is up.`])
})

test.each([
  ['stopped', 'start'],
  ['paused', 'unpause'],
])('a node that is %s goes on by "docker %s", and nothing else is touched', async (phase, verb) => {
  engine.play(phase)
  expect(await cluster.running()).toBe(false)
  expect(await cluster.stoppedNodes()).toEqual([
    `${NAME}-worker (${phase === 'stopped' ? 'exited' : 'paused'})`,
  ])
  const { asked } = await replay(phase, 'up')
  expect(changes(asked).filter((call) => call.startsWith('docker'))).toEqual([
    `docker ${verb} ${NAME}-worker`,
  ])
  expect(notes).toContain(`Starting ${NAME}-worker again`)
  expect(await cluster.running()).toBe(true)
})

test('deletes the cluster, and forgets it', async () => {
  const { asked } = await replay('delete', 'down')
  expect(changes(asked).filter((call) => call.startsWith('kind delete'))).toHaveLength(1)
  expect(existsSync(kindFolder(NAME))).toBe(false)
})
