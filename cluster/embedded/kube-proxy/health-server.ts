import { randomUUID } from 'node:crypto'
import { shellWord, TAME } from '../../shell-word.ts'
import type { GuestProcess, Machine, Placement } from '../machine/machine.ts'
import type { HealthCheck } from './service-backends.ts'

export interface HealthSettings {
  mode: string
  healthzPort: number
  metricsPort: number
  /** False while the node is being removed: /healthz then answers 503 (KEP-3836). */
  eligible: boolean
  healthChecks: readonly HealthCheck[]
}

const json = (value: unknown) => `'${JSON.stringify(value).replaceAll("'", '')}'`

const sniff = 'add_header X-Content-Type-Options nosniff always;'

/** Where the server of a node's kube-proxy keeps its files. */
const FOLDER = '/run/kube-proxy'

/**
 * The nginx configuration that answers as kube-proxy does: /healthz and /livez, /proxyMode, and a server for each Service's
 * health check port, 200 with local endpoints and 503 without. `place` begins the names of its files.
 */
export function healthConfiguration(place: string, settings: HealthSettings): string {
  const health = (nodeEligible?: boolean) => {
    const eligible = nodeEligible === undefined ? '' : `, "nodeEligible": ${nodeEligible}`
    return `'{"lastUpdated": "$time_iso8601","currentTime": "$time_iso8601"${eligible}}'`
  }
  const servers = settings.healthChecks.map(
    ({ port, namespace, name, localEndpoints }) => `  server {
    listen ${port};
    default_type application/json;
    ${sniff}
    add_header X-Load-Balancing-Endpoint-Weight ${localEndpoints} always;
    location / { return ${localEndpoints > 0 ? 200 : 503} ${json({ service: { namespace, name }, localEndpoints, serviceProxyHealthy: true })}; }
  }
`,
  )
  return `daemon off;
user root;
worker_processes 1;
pid ${place}.pid;
error_log /dev/null;
events { worker_connections 128; }
http {
  access_log off;
  ${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((kind) => `${kind}_temp_path ${FOLDER}/${kind};`).join(' ')}
  server {
    listen ${settings.healthzPort};
    default_type application/json;
    ${sniff}
    location = /healthz { return ${settings.eligible ? 200 : 503} ${health(settings.eligible)}; }
    location = /livez { return 200 ${health()}; }
    location / { return 404; }
  }
  server {
    listen 127.0.0.1:${settings.metricsPort};
    default_type 'text/plain; charset=utf-8';
    ${sniff}
    location = /proxyMode { return 200 '${settings.mode}'; }
    location = /healthz { return 200 'ok'; }
    location / { return 404; }
  }
${servers.join('')}}
`
}

/** An nginx, and where its files are. */
interface Server {
  process: GuestProcess
  place: string
}

/** So long a server waits for the next kube-proxy of its node: starting one costs as much as what a kube-proxy reads and writes then. */
const lingerMs = 1500

/** Machine → node → the server that its last kube-proxy has left, and what ends it. */
const left = new WeakMap<Machine, Map<string, { server: Server; timer: NodeJS.Timeout }>>()

/**
 * The one nginx by which a kube-proxy listens inside its node: it starts with the first Pod, and ends when nobody takes it over from
 * the last one. A new configuration is taken over without a moment in which nothing listens.
 */
export class HealthServer {
  private readonly machine: Machine
  private readonly placement: Placement
  private readonly node: string
  private written = ''
  private server: Server | undefined
  private told: string | undefined

  constructor(machine: Machine, placement: Placement, node: string) {
    this.machine = machine
    this.placement = placement
    this.node = node
  }

  /** The mode that is told to whoever asks; nothing while nobody listens. */
  get mode(): string | undefined {
    return this.told
  }

  /** Starts the server, or lets it take over a configuration that differs. */
  async serve(settings: HealthSettings): Promise<void> {
    const standing = this.server ?? this.takeOver()
    const place = standing?.place ?? `${FOLDER}/${randomUUID()}`
    const configuration = healthConfiguration(place, settings)
    if (configuration === this.written) return
    this.written = configuration
    // The agent sees a node's files by one of its processes, and writes without starting one.
    const { pid } = this.placement
    const root = pid === undefined ? '' : `/proc/${pid}/root`
    await this.machine.write([{ path: `${root}${place}.conf`, content: configuration }])
    if (standing) await this.reload(place)
    else await this.start(place)
    // It may have ended as soon as it was started.
    if (this.server) this.told = settings.mode
  }

  /** The next kube-proxy of this node takes the server over; when none comes, nothing listens after a moment. */
  stop(): void {
    const { server } = this
    this.server = undefined
    this.told = undefined
    if (!server) return
    const timer = setTimeout(() => this.takeOver()?.process.kill('SIGKILL'), lingerMs).unref()
    const ofMachine = left.get(this.machine) ?? new Map()
    left.set(this.machine, ofMachine.set(this.node, { server, timer }))
    const forget = () => {
      if (ofMachine.get(this.node)?.server === server) ofMachine.delete(this.node)
    }
    server.process.exited.then(forget, forget)
  }

  /** Nothing listens when this resolves, be it the server of an earlier kube-proxy: this one has failed, and told so. */
  async close(): Promise<void> {
    const server = this.server ?? this.takeOver()
    server?.process.kill('SIGKILL')
    await server?.process.exited
  }

  private takeOver(): Server | undefined {
    const { server, timer } = left.get(this.machine)?.get(this.node) ?? {}
    left.get(this.machine)?.delete(this.node)
    clearTimeout(timer)
    if (server) this.watch(server)
    return server
  }

  private async start(place: string): Promise<void> {
    const run = ['nginx', '-p', FOLDER, '-e', '/dev/null', '-c', `${place}.conf`]
    const process = await this.machine.spawn(run, this.placement, { noInput: true })
    process.stdout.resume()
    process.stderr.resume()
    this.watch({ process, place })
  }

  private watch(server: Server): void {
    this.server = server
    const ended = () => {
      if (this.server !== server) return
      this.server = undefined
      this.told = undefined
    }
    server.process.exited.then(ended, ended)
  }

  private async reload(place: string): Promise<void> {
    const file = shellWord(`${place}.pid`)
    // Signals to the process group would also reach the nsenter that waits for nginx.
    const script = `${TAME}
tries=50
until [ -s ${file} ] || [ $tries = 0 ]; do tries=$((tries - 1)); sleep 0.1; done
read -r pid <${file} && kill -HUP "$pid"`
    await this.machine.script(script, this.placement)
  }
}
