import { proxierOf } from '../../dataplane/kube-proxy/proxier.ts'
import { userspaceListeners } from '../../dataplane/kube-proxy/userspace/ruleset.ts'
import { featuresOf } from '../../dataplane/kube-proxy/versions.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { restoreCommand, type StepsResult, type Sysctl } from './guest-node.ts'
import { fullInput } from './iptables-proxier.ts'
import { Proxier, type ProxierContext } from './proxier.ts'
import { type RelayedPort, UserspaceRelay } from './userspace-relay.ts'

/**
 * kube-proxy's userspace mode (pkg/proxy/userspace of 1.20): rules redirect each Service port to a separate listener,
 * which connects to the endpoints in turn and tries the next one if an endpoint does not answer.
 */
export class UserspaceProxier extends Proxier {
  protected readonly failure = ['proxier.go:651', 'Failed to sync iptables rules'] as const
  private readonly relay: UserspaceRelay

  constructor(context: ProxierContext) {
    super(context, 'userspace', context.settings.syncPeriodMs)
    this.relay = new UserspaceRelay(context.guest, (line) => this.report(line))
  }

  async prepare(): Promise<Sysctl[]> {
    this.context.log('I', 'server_others.go:221', 'Using userspace Proxier.')
    return []
  }

  protected read(): Promise<NodeState> {
    return this.context.guest.read('iptables', 'links')
  }

  protected async write(wanted: NodeState, held: NodeState): Promise<StepsResult> {
    // The ports are opened first, because connections to a closed port would be refused.
    await this.relay.serve(this.ports())
    return this.context.guest.apply([{ command: restoreCommand, input: fullInput(wanted.iptables, held.iptables) }])
  }

  override stop(): Promise<void> {
    return this.relay.stop()
  }

  private ports(): RelayedPort[] {
    const { objects, node, version, settings } = this.context
    const proxier = proxierOf(objects(), node, 'ipv4', featuresOf(version), settings.config, [...this.addresses])
    return userspaceListeners(proxier).flatMap(({ port, proxyPort }) => {
      const { protocol, name, affinity = 0, endpoints } = port
      if (protocol === 'sctp') return []
      const ready = endpoints.filter((endpoint) => endpoint.ready).map(({ text }) => text)
      return [{ protocol, listens: proxyPort, service: name, affinity, endpoints: ready }]
    })
  }

  /** Logs the messages of pkg/proxy/userspace/proxysocket.go. */
  private report(line: string): void {
    const { log } = this.context
    const [what, service, endpoint] = line.split(' ')
    if (what === 'failed') log('E', 'proxysocket.go:111', 'Dial failed', { service, endpoint })
    else if (what === 'none') log('E', 'proxysocket.go:118', 'Failed to connect to balancer', { service })
    else log('E', 'proxier.go:439', line)
  }
}
