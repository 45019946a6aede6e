import type { Api } from '../apiserver/api.ts'
import type { EventRecorder } from '../controllers/events.ts'
import type { GuestProcess, Machine, Placement } from '../machine/machine.ts'
import type { NodePlan } from '../network/node-setup.ts'
import type { Network } from '../network/topology.ts'

/** The result of a connection attempt. */
export type Answer = { kind: 'open' } | { kind: 'line'; line: string } | { kind: 'refused' } | { kind: 'silent' }

// One bash per node that forks for each probe: a fork takes a fraction of the time of starting a program.
const script = `while IFS=$'\\t' read -r id host port seconds payload; do
  ( exec 2>/dev/null
    exec 3<>"/dev/tcp/$host/$port" || { echo "$id refused"; exit; }
    [ -n "$payload" ] || { echo "$id open"; exit; }
    printf '%b' "$payload" >&3
    if IFS= read -r -t "$seconds" line <&3; then echo "$id line $line"; else echo "$id silent"; fi ) &
done`

/** A pending connection attempt. */
interface Running {
  id: number
  since: number
  waiting: Set<(answer: Answer) => void>
}

/** Equal probes within this time share one result, to reduce the load of a busy node. */
const underWayMs = 5000

/** Connects to TCP ports from a node, as its kubelet does for probes. */
export class Prober {
  private readonly machine: Machine
  private readonly placement: Placement
  private shell: Promise<GuestProcess> | undefined
  private readonly running = new Map<string, Running>()
  private next = 1

  constructor(machine: Machine, placement: Placement) {
    this.machine = machine
    this.placement = placement
  }

  /** Connects, sends `payload` if there is one and waits for the first line of the answer. */
  async try(host: string, port: number, timeoutSeconds: number, payload = ''): Promise<Answer> {
    this.shell ??= this.start()
    const shell = await this.shell
    const escaped = payload
      .replaceAll('\\', '\\\\')
      .replaceAll('\r', '\\r')
      .replaceAll('\n', '\\n')
      .replaceAll('\t', '\\t')
    const wanted = `${host}\t${port}\t${timeoutSeconds}\t${escaped}`
    let running = this.running.get(wanted)
    if (!running || Date.now() - running.since > underWayMs) {
      running = { id: this.next++, since: Date.now(), waiting: new Set() }
      this.running.set(wanted, running)
      shell.stdin.write(`${running.id}\t${wanted}\n`)
    }
    const { waiting } = running
    return new Promise((resolve) => {
      const settle = (answer: Answer) => {
        clearTimeout(timer)
        waiting.delete(settle)
        resolve(answer)
      }
      const timer = setTimeout(() => settle({ kind: 'silent' }), timeoutSeconds * 1000)
      waiting.add(settle)
    })
  }

  async stop(): Promise<void> {
    const shell = await this.shell?.catch(() => undefined)
    shell?.kill('SIGKILL')
  }

  private async start(): Promise<GuestProcess> {
    const shell = await this.machine.spawn(['bash', '--norc', '-c', script], this.placement)
    shell.stderr.resume()
    let rest = ''
    shell.stdout.on('data', (bytes: Buffer) => {
      const lines = (rest + bytes.toString('latin1')).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) this.answer(line)
    })
    void shell.exited.then(() => {
      this.shell = undefined
      this.running.clear()
    })
    return shell
  }

  private answer(text: string): void {
    const [, id, kind, line] = /^(\d+) (\w+) ?(.*)$/.exec(text.trimEnd()) ?? []
    const [wanted, running] = [...this.running].find(([, one]) => one.id === Number(id)) ?? []
    if (wanted === undefined || !running) return
    this.running.delete(wanted)
    const answer = answerOf(kind, line)
    if (answer) for (const settle of [...running.waiting]) settle(answer)
  }
}

function answerOf(kind: string | undefined, line = ''): Answer | undefined {
  if (kind === 'line') return { kind, line }
  return kind === 'open' || kind === 'refused' || kind === 'silent' ? { kind } : undefined
}

/** The context that all parts of one node's kubelet share. */
export interface NodeContext {
  readonly machine: Machine
  readonly network: Network
  readonly api: Api
  readonly node: NodePlan
  readonly events: EventRecorder
  readonly prober: Prober
}
