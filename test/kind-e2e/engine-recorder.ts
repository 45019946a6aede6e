import { chmodSync, copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { V1NodeList } from '@kubernetes/client-node'
import type { EngineCall, EnginePhase } from '../cluster/recorded-engine.ts'

const PROGRAM = join(import.meta.dirname, 'record-engine.pl')

/**
 * Puts a recording docker and kind before the genuine ones, and keeps what they printed, phase by
 * phase.
 */
export class EngineRecorder {
  readonly #folder: string
  readonly #project: string
  readonly #phases: Record<string, EnginePhase> = {}

  /** @param project the folder of the project, which recordings name `<project>` */
  constructor(folder: string, project: string) {
    this.#folder = folder
    this.#project = project
    mkdirSync(join(folder, 'bin'), { recursive: true })
    for (const name of ['docker', 'kind']) {
      const path = join(folder, 'bin', name)
      copyFileSync(PROGRAM, path)
      chmodSync(path, 0o755)
    }
  }

  /** The variables of a command whose engine is to be recorded. */
  environment(phase: string): Record<string, string> {
    const file = join(this.#folder, `${phase}.jsonl`)
    writeFileSync(file, '')
    return {
      RECORD_ENGINE: file,
      PATH: `${join(this.#folder, 'bin')}${delimiter}${process.env.PATH}`,
    }
  }

  /** Keeps what was recorded until now, with the nodes that the API server lists afterwards. */
  async keep(phase: string, nodes: () => Promise<string>): Promise<void> {
    const text = readFileSync(join(this.#folder, `${phase}.jsonl`), 'utf8')
    const calls = text
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line.replaceAll(this.#project, '<project>')) as EngineCall)
    this.#phases[phase] = { calls: changing(calls.map(portable)), nodes: listed(await nodes()) }
  }

  write(file: string): void {
    const lines = Object.entries(this.#phases).map(([phase, { calls, nodes }]) => {
      const rows = calls.map((call) => `    ${JSON.stringify(call)}`).join(',\n')
      return `  ${JSON.stringify(phase)}: { "nodes": ${JSON.stringify(nodes)}, "calls": [\n${rows}\n  ] }`
    })
    writeFileSync(file, `{\n${lines.join(',\n')}\n}\n`)
  }
}

/**
 * Programs for a container are no part of the question, and much of what an image's description
 * holds is of this machine.
 */
const portable = (call: EngineCall): EngineCall => ({
  ...call,
  words: call.words.map((word) => (word.includes('\n') ? '<program>' : word)),
  stdout: call.words[0] === 'image' && call.words.length === 3 ? '[]\n' : call.stdout,
})

/**
 * A program that waits asks the same again and again: of equal answers in a row the first is
 * enough.
 */
function changing(calls: EngineCall[]): EngineCall[] {
  const last = new Map<string, string>()
  return calls.filter(({ program, words, ...answer }) => {
    const question = JSON.stringify([program, words])
    const text = JSON.stringify(answer)
    const isNew = last.get(question) !== text
    last.set(question, text)
    return isNew
  })
}

/** What the driver reads of each node: its name, and its Ready condition. */
const listed = (json: string): EnginePhase['nodes'] =>
  (JSON.parse(json) as V1NodeList).items.map(({ metadata, status }) => {
    const ready = status?.conditions?.find(({ type }) => type === 'Ready')
    return {
      metadata: { name: metadata?.name ?? '' },
      status: {
        conditions: [
          {
            type: 'Ready',
            status: ready?.status ?? 'Unknown',
            lastHeartbeatTime: String(ready?.lastHeartbeatTime ?? ''),
          },
        ],
      },
    }
  })
