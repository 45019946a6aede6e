import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { proxierOf } from '../../dataplane/kube-proxy/proxier.ts'
import { userspaceListeners } from '../../dataplane/kube-proxy/userspace/ruleset.ts'
import { featuresOf } from '../../dataplane/kube-proxy/versions.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import type { ClusterObjects } from '../../dataplane/objects.ts'
import { projectRoot } from '../../host/layout.ts'
import type { GuestProcess } from '../machine/machine.ts'
import { type GuestNode, restoreCommand, type StepsResult } from './guest-node.ts'
import { fullInput } from './iptables-proxier.ts'
import { Proxier, type SyncChange } from './proxier.ts'

/**
 * Userspace mode (pkg/proxy/userspace of 1.20): rules redirect each Service port to a listener that
 * tries the endpoints in turn.
 */
export class UserspaceProxier extends Proxier {
  readonly maxIntervalMs = this.context.settings.syncPeriodMs
  protected readonly mode = 'userspace'
  protected readonly failure = ['proxier.go:651', 'Failed to sync iptables rules'] as const
  readonly #relay = new UserspaceRelay(this.context.guest, (line) => this.#report(line))

  async prepare(): Promise<void> {
    this.context.log('I', 'server_others.go:221', 'Using userspace Proxier.')
  }

  protected read(): Promise<NodeState> {
    return this.context.guest.read('iptables', 'links')
  }

  protected async write({ wanted, current, objects }: SyncChange): Promise<StepsResult> {
    // The ports are opened first, because connections to a closed port would be refused.
    await this.#relay.serve(this.#ports(objects))
    return this.context.guest.apply([
      { command: restoreCommand, input: fullInput(wanted.iptables, current.iptables) },
    ])
  }

  override stop(): Promise<void> {
    return this.#relay.stop()
  }

  #ports(objects: ClusterObjects): RelayedPort[] {
    const { node, version, settings } = this.context
    const proxier = proxierOf(objects, node, 'ipv4', featuresOf(version), settings.config, [
      ...this.addresses,
    ])
    return userspaceListeners(proxier).flatMap(({ port, proxyPort }) => {
      const { protocol, name, affinity = 0, endpoints } = port
      if (protocol === 'sctp') return []
      const ready = endpoints.filter((endpoint) => endpoint.ready).map(({ text }) => text)
      return [{ protocol, listens: proxyPort, service: name, affinity, endpoints: ready }]
    })
  }

  /** Logs the messages of pkg/proxy/userspace/proxysocket.go. */
  #report(line: string): void {
    const { log } = this.context
    const [what, service, endpoint] = line.split(' ')
    if (what === 'failed') log('E', 'proxysocket.go:111', 'Dial failed', { service, endpoint })
    else if (what === 'none')
      log('E', 'proxysocket.go:118', 'Failed to connect to balancer', { service })
    else log('E', 'proxier.go:439', line)
  }
}

/** One listener of the relay and its endpoints. */
interface RelayedPort {
  protocol: 'tcp' | 'udp'
  listens: number
  /** `namespace/name:port` */
  service: string
  /** Seconds of ClientIP affinity; 0 for none. */
  affinity: number
  /** `ip:port` */
  endpoints: readonly string[]
}

const RELAY = join(projectRoot, 'embedded/kube-proxy/userspace-relay.pl')

/**
 * The process that relays connections for a kube-proxy in userspace mode; it ends with kube-proxy.
 */
class UserspaceRelay {
  readonly #guest: GuestNode
  readonly #report: (line: string) => void
  #process: GuestProcess | undefined
  #waiting: { ready(): void; gone(error: Error): void } | undefined
  #written = ''

  /** `report` is called for endpoints that did not answer and for ports that are in use. */
  constructor(guest: GuestNode, report: (line: string) => void) {
    this.#guest = guest
    this.#report = report
  }

  /**
   * Listens on exactly these ports; resolves when they are open. Rejects if the process has ended.
   */
  async serve(ports: readonly RelayedPort[]): Promise<void> {
    const lines = ports.map(({ protocol, listens, service, affinity, endpoints }) =>
      [protocol, listens, service, affinity, ...endpoints].join(' '),
    )
    const text = `${[...lines, 'end'].join('\n')}\n`
    if (text === this.#written) return
    this.#process ??= await this.#start()
    const process = this.#process
    const ready = new Promise<void>((resolve, reject) => {
      this.#waiting = { ready: resolve, gone: reject }
    })
    process.stdin.write(text)
    await ready
    this.#written = text
  }

  async #start(): Promise<GuestProcess> {
    const process = await this.#guest.spawn(['perl', '-e', readFileSync(RELAY, 'utf8')])
    createInterface({ input: process.stdout }).on('line', (line) => {
      if (line === 'ready') this.#waiting?.ready()
      else this.#report(line)
    })
    process.stderr.on('data', (bytes: Buffer) => this.#report(bytes.toString().trim()))
    const gone = () => {
      this.#process = undefined
      this.#written = ''
      this.#waiting?.gone(new Error('the process that relays connections has ended'))
    }
    process.exited.then(gone, gone)
    return process
  }

  /** Ends the relay and its connections. */
  async stop(): Promise<void> {
    const process = this.#process
    process?.kill('SIGKILL')
    await process?.exited
  }
}
