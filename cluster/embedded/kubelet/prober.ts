import type { GuestProcess, Machine, Placement } from '../machine/machine.ts'

/** How a try to reach a port ended. */
export type Answer = { kind: 'open' } | { kind: 'line'; line: string } | { kind: 'refused' } | { kind: 'silent' }

// One bash a node that forks for each probe: a fork costs a fraction of the start of a program.
const script = `while IFS=$'\\t' read -r id host port seconds payload; do
  ( exec 2>/dev/null
    exec 3<>"/dev/tcp/$host/$port" || { echo "$id refused"; exit; }
    [ -n "$payload" ] || { echo "$id open"; exit; }
    printf '%b' "$payload" >&3
    if IFS= read -r -t "$seconds" line <&3; then echo "$id line $line"; else echo "$id silent"; fi ) &
done`

/** Tries TCP ports from a node, as its kubelet does for probes. */
export class Prober {
  private readonly machine: Machine
  private readonly placement: Placement
  private shell: Promise<GuestProcess> | undefined
  private readonly waiting = new Map<number, (answer: Answer) => void>()
  private next = 1

  constructor(machine: Machine, placement: Placement) {
    this.machine = machine
    this.placement = placement
  }

  /** Connects, sends `payload` if there is one and waits for the first line of the answer. */
  async try(host: string, port: number, timeoutSeconds: number, payload = ''): Promise<Answer> {
    this.shell ??= this.start()
    const shell = await this.shell
    const id = this.next++
    return new Promise((resolve) => {
      const settle = (answer: Answer) => {
        clearTimeout(timer)
        this.waiting.delete(id)
        resolve(answer)
      }
      const timer = setTimeout(() => settle({ kind: 'silent' }), timeoutSeconds * 1000)
      this.waiting.set(id, settle)
      const escaped = payload
        .replaceAll('\\', '\\\\')
        .replaceAll('\r', '\\r')
        .replaceAll('\n', '\\n')
        .replaceAll('\t', '\\t')
      shell.stdin.write(`${id}\t${host}\t${port}\t${timeoutSeconds}\t${escaped}\n`)
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
    })
    return shell
  }

  private answer(text: string): void {
    const [, id, kind, line] = /^(\d+) (\w+) ?(.*)$/.exec(text.trimEnd()) ?? []
    const settle = this.waiting.get(Number(id))
    if (kind === 'line') settle?.({ kind, line: line ?? '' })
    else if (kind === 'open' || kind === 'refused' || kind === 'silent') settle?.({ kind })
  }
}
