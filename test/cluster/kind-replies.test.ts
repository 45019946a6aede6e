// Single replies, also of failures, as the driver reads them (whole commands: kind-run.test.ts):
// kind 0.33 and Docker 20.10 (client 28.2), recorded while a cluster of three nodes was created,
// lost nodes, was started again and was deleted. Each reply is given to the words that it was
// recorded for, so a driver that asks in other words fails here; the path of the checkout is
// replaced.

import { execFileSync } from 'node:child_process'
import { chmodSync, copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import * as z from 'zod'
import { ClusterNotReady } from '../../cluster/driver.ts'
import { execInContainer } from '../../cluster/kind/container-exec.ts'
import { containerEngine, hasImage } from '../../cluster/kind/engine.ts'
import {
  ADDRESS,
  inspect,
  isRunning,
  nodeContainers,
  STARTED_AT,
  STATE,
  startContainers,
} from '../../cluster/kind/node-containers.ts'
import { FakeEngine } from './fake-engine.ts'

const FILE = join(import.meta.dirname, 'genuine-replies.json')
const reply = z.object({
  program: z.string(),
  words: z.array(z.string()),
  exitCode: z.number(),
  stdout: z.string(),
  stderr: z.string(),
})
const recorded = z
  .array(z.object({ moment: z.string(), replies: z.array(reply) }))
  .parse(JSON.parse(readFileSync(FILE, 'utf8')))

const PROGRAM = join(import.meta.dirname, 'replay-replies.pl')

let folder: string
const at = (moment: string) => writeFileSync(join(folder, 'moment'), moment)

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'recorded-kind-'))
  for (const name of ['docker', 'kind']) copyFileSync(PROGRAM, join(folder, name))
  writeFileSync(join(folder, 'podman'), '#!/bin/sh\nexit 125\n')
  for (const name of ['docker', 'kind', 'podman']) chmodSync(join(folder, name), 0o755)
  copyFileSync(FILE, join(folder, 'replies.json'))
  vi.stubEnv('PATH', `${folder}${delimiter}${process.env.PATH}`)
})
afterEach(() => {
  vi.unstubAllEnvs()
  rmSync(folder, { recursive: true })
})

const NODES = ['rec-control-plane', 'rec-worker', 'rec-worker2']
const states = async () =>
  (await nodeContainers('docker', 'rec')).map(({ name, state }) => `${name} ${state}`)

test('the recording has every moment', () => {
  expect(recorded.map(({ moment }) => moment)).toEqual([
    'up',
    'status',
    'exec',
    'missing',
    'killed',
    'stopped',
    'paused',
    'again',
    'unreachable',
    'down',
    'gone',
  ])
})

describe('the nodes', () => {
  test('are listed with their states, control plane first', async () => {
    at('status')
    expect(await states()).toEqual(NODES.map((name) => `${name} running`))
    at('stopped')
    expect(await states()).toEqual([
      `${NODES[0]} running`,
      `${NODES[1]} running`,
      `${NODES[2]} exited`,
    ])
    at('paused')
    expect(await states()).toEqual([
      `${NODES[0]} running`,
      `${NODES[1]} paused`,
      `${NODES[2]} exited`,
    ])
    at('gone')
    expect(await states()).toEqual([])
  })

  test('that stopped are started, and paused ones unpaused, in words that Docker accepts', async () => {
    at('paused')
    const containers = (await nodeContainers('docker', 'rec')).filter((one) => !isRunning(one))
    at('again')
    await startContainers('docker', containers)
    expect(readFileSync(join(folder, 'log'), 'utf8').split('\n').slice(1, 3)).toEqual([
      'docker unpause rec-worker',
      'docker start rec-worker2',
    ])
    at('missing')
    await expect(
      startContainers('docker', [{ name: 'rec-none', state: 'exited' }]),
    ).rejects.toThrow('docker could not start rec-none: ')
  })

  test('have addresses and starting times; a stopped one has no address, a missing one nothing', async () => {
    at('again')
    expect([...(await inspect('docker', ADDRESS, NODES))]).toEqual(
      NODES.map((name, index) => [name, `172.18.0.${index + 2}`]),
    )
    at('stopped')
    const two = NODES.slice(1)
    expect([...(await inspect('docker', ADDRESS, two))]).toEqual([['rec-worker', '172.18.0.3']])
    for (const time of (await inspect('docker', STARTED_AT, two)).values())
      expect(Date.parse(JSON.parse(time))).toBeGreaterThan(0)
    at('missing')
    expect([...(await inspect('docker', STATE, ['rec-none', 'rec-worker']))]).toEqual([
      ['rec-worker', 'running'],
    ])
  })
})

describe('a command on a node', () => {
  const run = (container: string, ...command: string[]) =>
    execInContainer({ engine: 'docker', container, node: container }, command, {})

  test('fails by itself with its own exit code', async () => {
    at('exec')
    expect(await run('rec-worker', 'sh', '-c', 'exit 7')).toMatchObject({ exitCode: 7 })
  })

  test.each([
    ['killed', 'rec-worker2', ['sleep', '30'], /^rec-worker2 is exited, so the command was interr/],
    [
      'stopped',
      'rec-worker2',
      ['true'],
      /^rec-worker2 is exited, so no command runs there; `make up`/,
    ],
    [
      'paused',
      'rec-worker',
      ['true'],
      /^rec-worker is paused, so no command runs there; `make up`/,
    ],
  ])(
    'on a node that is %s: the sentence names it and make up',
    async (moment, node, words, text) => {
      at(moment)
      const ran = run(node, ...words)
      await expect(ran).rejects.toThrow(ClusterNotReady)
      await expect(ran).rejects.toThrow(text)
    },
  )

  test('is refused where there is no such container, or no engine', async () => {
    at('missing')
    await expect(run('rec-none', 'true')).rejects.toThrow('No such container: rec-none')
    at('unreachable')
    await expect(run('rec-worker', 'true')).rejects.toThrow(/^Cannot connect to the Docker daemon/)
  })
})

test('an engine that answers is found, and its images; one without a server is none', async () => {
  at('up')
  expect(await containerEngine()).toBe('docker')
  at('missing')
  expect(await hasImage('docker', 'no-such-image:1')).toBe(false)
  at('unreachable')
  expect(await containerEngine()).toBeUndefined()
  await expect(nodeContainers('docker', 'rec')).rejects.toThrow(
    'docker could not list its containers: Cannot connect to the Docker daemon',
  )
})

test('the made engine of the other tests prints the same', () => {
  const engine = new FakeEngine()
  engine.writeContainers('rec', { 'control-plane': 'running', worker: 'paused', worker2: 'exited' })
  const ask = (path: string, words: string[]) =>
    execFileSync(path, words, { encoding: 'utf8' }).split('\n').sort()
  at('paused')
  const list = ['ps', '-a', '--filter', 'label=io.x-k8s.kind.cluster=rec', '--format']
  for (const words of [
    [...list, '{{.Names}}\t{{.State}}'],
    ['inspect', '--format', `{{.Name}} ${STATE}`, ...NODES],
  ])
    expect(ask(join(engine.folder, 'bin/docker'), words)).toEqual(
      ask(join(folder, 'docker'), words),
    )
  engine.stop()
})
