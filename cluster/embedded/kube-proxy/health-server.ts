import { shellWord } from '../../shell-word.ts'
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

/**
 * The one nginx by which a kube-proxy listens inside its node: it starts with the Pod and ends with it. A new
 * configuration is taken over without a moment in which nothing listens.
 */
export class HealthServer {
  private readonly machine: Machine
  private readonly placement: Placement
  private readonly place: string
  private written = ''
  private server: GuestProcess | undefined
  private told: string | undefined

  /** `name` tells the server's files from those of others. */
  constructor(machine: Machine, placement: Placement, name: string) {
    this.machine = machine
    this.placement = placement
    this.place = `${FOLDER}/${name}`
  }

  /** The mode that is told to whoever asks; nothing while nobody listens. */
  get mode(): string | undefined {
    return this.told
  }

  /** Starts the server, or lets it take over a configuration that differs. */
  async serve(settings: HealthSettings): Promise<void> {
    const configuration = healthConfiguration(this.place, settings)
    if (configuration === this.written) return
    this.written = configuration
    const place = shellWord(this.place)
    // The agent sees a node's files by one of its processes, and writes without starting one.
    const { pid } = this.placement
    const root = pid === undefined ? '' : `/proc/${pid}/root`
    await this.machine.write([{ path: `${root}${this.place}.conf`, content: configuration }])
    if (this.server) {
      // Signals to the process group would also reach the nsenter that waits for nginx.
      const reload = `tries=50
        until [ -s ${place}.pid ] || [ $tries = 0 ]; do tries=$((tries - 1)); sleep 0.1; done
        read -r pid <${place}.pid && kill -HUP "$pid"`
      await this.machine.script(reload, this.placement)
      return
    }
    const run = ['nginx', '-p', FOLDER, '-e', '/dev/null', '-c', `${this.place}.conf`]
    this.server = await this.machine.spawn(run, this.placement, { noInput: true })
    this.server.stdout.resume()
    this.server.stderr.resume()
    this.told = settings.mode
    const silent = () => {
      this.told = undefined
    }
    this.server.exited.then(silent, silent)
  }

  /** Ends the server: nothing listens when this resolves. */
  async stop(): Promise<void> {
    this.server?.kill('SIGKILL')
    await this.server?.exited
    this.server = undefined
  }
}
