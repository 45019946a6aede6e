import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import type { GuestProcess, Machine, Placement } from '../machine/machine.ts'

/** The result of a connection attempt; `line` is the first line that was received. */
export interface Answer {
  kind: 'open' | 'line' | 'refused' | 'silent'
  line: string
}

const silent: Answer = { kind: 'silent', line: '' }

// One bash per place that forks for each probe: a fork takes a fraction of the time of starting a program.
const script = `while IFS=$'\\t' read -r id host port seconds payload; do
  ( exec 2>/dev/null
    exec 3<>"/dev/tcp/$host/$port" || { echo "$id refused"; exit; }
    [ -n "$payload" ] || { echo "$id open"; exit; }
    printf '%b' "$payload" >&3
    if IFS= read -r -t "$seconds" line <&3; then echo "$id line $line"; else echo "$id silent"; fi ) &
done`

/** A connection attempt that has not ended. */
interface Attempt {
  id: number
  since: number
  answer: Promise<Answer>
  settle(answer: Answer): void
}

/** Equal attempts within this time share one result: one to a host that does not answer lasts two minutes. */
const sharedMs = 5000

/** Connects to TCP ports from one place, as a node's kubelet does for probes. */
export class Prober {
  private readonly machine: Machine
  private readonly placement: Placement
  private shell: Promise<GuestProcess> | undefined
  private readonly attempts = new Map<string, Attempt>()
  private next = 1

  constructor(machine: Machine, placement: Placement) {
    this.machine = machine
    this.placement = placement
  }

  /** Connects, sends `payload` if there is one and waits for the first line of the answer. */
  async try(host: string, port: number, timeoutSeconds: number, payload = ''): Promise<Answer> {
    this.shell ??= this.start()
    const { stdin } = await this.shell
    const escaped = JSON.stringify(payload).slice(1, -1).replaceAll('\\"', '"')
    const wanted = [host, port, timeoutSeconds, escaped].join('\t')
    let attempt = this.attempts.get(wanted)
    if (!attempt || Date.now() - attempt.since > sharedMs) {
      let settle: (answer: Answer) => void = () => {}
      const answer = new Promise<Answer>((resolve) => {
        settle = resolve
      })
      attempt = { id: this.next++, since: Date.now(), answer, settle }
      this.attempts.set(wanted, attempt)
      stdin.write(`${attempt.id}\t${wanted}\n`)
    }
    return Promise.race([attempt.answer, delay(timeoutSeconds * 1000, silent, { ref: false })])
  }

  async stop(): Promise<void> {
    const shell = await this.shell?.catch(() => undefined)
    shell?.kill('SIGKILL')
  }

  private async start(): Promise<GuestProcess> {
    const shell = await this.machine.spawn(['bash', '--norc', '-c', script], this.placement)
    shell.stderr.resume()
    createInterface({ input: shell.stdout }).on('line', (line) => this.answer(line))
    void shell.exited.then(() => {
      this.shell = undefined
      this.attempts.clear()
    })
    return shell
  }

  private answer(text: string): void {
    const [, id, kind, line = ''] = /^(\d+) (open|line|refused|silent) ?(.*)$/.exec(text) ?? []
    const [wanted, attempt] = [...this.attempts].find(([, one]) => one.id === Number(id)) ?? []
    if (wanted === undefined || !attempt) return
    this.attempts.delete(wanted)
    attempt.settle({ kind: kind as Answer['kind'], line })
  }
}

/** The text of an HTTP GET; `headers` replace those of the kubelet's probes. */
export function httpRequest(path: string, host: string, headers: { name: string; value: string }[] = []): string {
  const own = { host, 'user-agent': 'kube-probe/1.34', accept: '*/*' }
  const given = headers.map(({ name, value }) => [name, value] as const)
  const missing = Object.entries(own).filter(([name]) => !given.some(([other]) => other.toLowerCase() === name))
  const lines = [...missing, ...given].map(([name, value]) => `${name}: ${value}`)
  return [`GET ${path.startsWith('/') ? path : `/${path}`} HTTP/1.1`, ...lines, 'Connection: close', '', ''].join(
    '\r\n',
  )
}

/** The status in the first line of an HTTP response. */
export function statusOf(line: string): number | undefined {
  const status = /^HTTP\/\S+ (\d{3})/.exec(line)?.[1]
  return status === undefined ? undefined : Number(status)
}
