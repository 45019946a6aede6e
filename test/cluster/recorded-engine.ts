import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { projectRoot } from '../../host/layout.ts'
import { NodeListServer } from './node-list-server.ts'

/** One call of docker or kind in a genuine run: the words after its name, and what it printed. */
export interface EngineCall {
  program: 'docker' | 'kind'
  words: string[]
  exitCode: number
  stdout: string
  stderr: string
}

/** The calls of one command of make, and what the API server lists after it. */
export interface EnginePhase {
  calls: EngineCall[]
  nodes: {
    metadata: { name: string }
    status: { conditions: { type: string; status: string; lastHeartbeatTime: string }[] }
  }[]
}

const PROGRAM = join(import.meta.dirname, 'replay-engine.pl')

/**
 * A docker and a kind that answer as in a genuine run (genuine-run.json, which
 * `RECORD=1 make e2e-kind` writes).
 */
export class RecordedEngine {
  readonly folder = mkdtempSync(join(tmpdir(), 'recorded-engine-'))
  readonly path = `${join(this.folder, 'bin')}${delimiter}${process.env.PATH}`
  readonly #phases: Record<string, EnginePhase> = JSON.parse(
    readFileSync(join(import.meta.dirname, 'genuine-run.json'), 'utf8'),
  )
  #nodes: EnginePhase['nodes'] = []
  readonly #server = new NodeListServer(() => this.#nodes)

  /** Installs the programs, and starts an API server. */
  async start(): Promise<void> {
    mkdirSync(join(this.folder, 'bin'))
    for (const name of ['docker', 'kind', 'podman']) {
      const path = join(this.folder, 'bin', name)
      if (name === 'podman') writeFileSync(path, '#!/bin/sh\nexit 125\n')
      else copyFileSync(PROGRAM, path)
      chmodSync(path, 0o755)
    }
    writeFileSync(join(this.folder, 'project'), projectRoot)
    writeFileSync(join(this.folder, 'kubeconfig'), await this.#server.start())
  }

  stop(): void {
    this.#server.stop()
    rmSync(this.folder, { recursive: true })
  }

  /** From now on, answers are those of this phase of the run. */
  play(phase: string): EnginePhase {
    const recorded = this.#phases[phase]
    if (!recorded) throw new Error(`The recording has no phase "${phase}".`)
    this.#nodes = recorded.nodes
    // Asked by the process of the load balancer, which outlives the command that started it.
    const background = this.#phases.create?.calls.filter(({ words }) => words[0] === 'network')
    const calls = [...recorded.calls, ...(background ?? [])]
    writeFileSync(join(this.folder, 'calls.json'), JSON.stringify(calls))
    for (const file of ['asked', 'unknown']) writeFileSync(join(this.folder, file), '')
    return recorded
  }

  /** What was asked since the last play(), as in a shell; repeated questions once. */
  asked(): string[] {
    return [...new Set(this.#lines('asked'))]
  }

  /** What was asked and is not in the recording. */
  unknown(): string[] {
    return this.#lines('unknown')
  }

  #lines(file: string): string[] {
    return readFileSync(join(this.folder, file), 'utf8')
      .split('\n')
      .filter(Boolean)
      .map((line) => (JSON.parse(line) as string[]).join(' '))
  }
}
