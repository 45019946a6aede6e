import { isIPv4 } from 'node:net'
import { createInterface } from 'node:readline'
import { programText } from '../../host/program-text.ts'
import type { GuestProcess, Machine, Placement } from '../machine/machine.ts'

/** The result of a connection attempt; `line` is the first line that was received. */
export interface ProbeResult {
  kind: 'open' | 'line' | 'refused' | 'silent'
  line: string
}

/**
 * One perl for each place, with its built-in functions, as every Debian has it. It starts no
 * process for a probe: a fork costs the embedded kernel more than the probe does, and the guide's
 * page takes each started program for activity. The numbers are those of grading/http-requests.ts.
 * A connection is given up when its time is over.
 */
const script = programText('embedded/network/prober.pl')

/** Connects to TCP ports from one place, as a node's kubelet does for probes. */
export class Prober {
  readonly #machine: Machine
  readonly #placement: Placement
  #process: Promise<GuestProcess> | undefined
  readonly #waiting = new Map<number, (answer: ProbeResult) => void>()
  #next = 1

  constructor(machine: Machine, placement: Placement) {
    this.#machine = machine
    this.#placement = placement
  }

  /**
   * Connects, sends `payload` if there is one and waits for the first line of the answer. Only IPv4
   * addresses are reached.
   */
  async try(
    host: string,
    port: number,
    timeoutSeconds: number,
    payload = '',
  ): Promise<ProbeResult> {
    if (!isIPv4(host)) return { kind: 'refused', line: '' }
    this.#process ??= this.#start().catch((error) => {
      this.#process = undefined
      throw error
    })
    const { stdin } = await this.#process
    const id = this.#next++
    const answer = new Promise<ProbeResult>((resolve) => this.#waiting.set(id, resolve))
    stdin.write(
      `${[id, host, port, timeoutSeconds, Buffer.from(payload).toString('hex')].join('\t')}\n`,
    )
    return answer
  }

  async stop(): Promise<void> {
    const process = await this.#process?.catch(() => undefined)
    process?.kill('SIGKILL')
  }

  async #start(): Promise<GuestProcess> {
    const process = await this.#machine.spawn(['perl', '-e', script], this.#placement)
    process.stderr.resume()
    createInterface({ input: process.stdout }).on('line', (line) => this.#answer(line))
    void process.exited.then(() => {
      this.#process = undefined
      for (const resolve of this.#waiting.values()) resolve({ kind: 'silent', line: '' })
      this.#waiting.clear()
    })
    return process
  }

  #answer(text: string): void {
    const [, id, kind, line = ''] = /^(\d+) (open|line|refused|silent) ?(.*)$/.exec(text) ?? []
    this.#waiting.get(Number(id))?.({ kind: kind as ProbeResult['kind'], line })
    this.#waiting.delete(Number(id))
  }
}

/** The text of an HTTP GET; `headers` replace those of the kubelet's probes. */
export function httpRequest(
  path: string,
  host: string,
  headers: { name: string; value: string }[] = [],
): string {
  const own = { host, 'user-agent': 'kube-probe/1.34', accept: '*/*' }
  const ownHeaders = headers.map(({ name, value }) => [name, value] as const)
  const missing = Object.entries(own).filter(
    ([name]) => !ownHeaders.some(([other]) => other.toLowerCase() === name),
  )
  const lines = [...missing, ...ownHeaders].map(([name, value]) => `${name}: ${value}`)
  return [
    `GET ${path.startsWith('/') ? path : `/${path}`} HTTP/1.1`,
    ...lines,
    'Connection: close',
    '',
    '',
  ].join('\r\n')
}

/** The status in the first line of an HTTP response. */
export function httpStatus(line: string): number | undefined {
  const status = /^HTTP\/\S+ (\d{3})/.exec(line)?.[1]
  return status === undefined ? undefined : Number(status)
}
