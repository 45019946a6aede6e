import { randomUUID } from 'node:crypto'
import { readyEndpoints, type ServicePort } from '../../dataplane/kube-proxy/service-ports.ts'
import type { GuestProcess } from '../machine/machine.ts'
import type { GuestNode } from './guest-node.ts'
import type { Settings } from './settings.ts'

/** A Service with a health check port on this node. */
interface HealthCheck {
  port: number
  namespace: string
  name: string
  /** Ready endpoints of this node, counted by address. */
  localEndpoints: number
}

/** The health checks of one node. */
export function nodeHealthChecks(services: readonly ServicePort[]): HealthCheck[] {
  const local = new Map<number, Set<string>>()
  const checks = new Map<number, HealthCheck>()
  for (const service of services) {
    const port = service.healthCheckNodePort
    if (port === 0) continue
    const [, namespace = '', name = ''] = /^([^/]*)\/([^:]*)/.exec(service.name) ?? []
    const here = local.get(port) ?? new Set()
    for (const { ip, isLocal } of readyEndpoints(service)) if (isLocal) here.add(ip)
    local.set(port, here)
    checks.set(port, { port, namespace, name, localEndpoints: here.size })
  }
  return [...checks.values()]
}

const json = (value: unknown) => `'${JSON.stringify(value).replaceAll("'", '')}'`

const sniff = 'add_header X-Content-Type-Options nosniff always;'

/** The folder for the files of the server. */
const FOLDER = '/run/kube-proxy'

/** The nginx configuration with kube-proxy's responses. `place` begins the names of its files. */
function healthConfiguration(
  place: string,
  settings: Settings,
  checks: readonly HealthCheck[],
): string {
  const health = (more = '') =>
    `'{"lastUpdated": "$time_iso8601","currentTime": "$time_iso8601"${more}}'`
  const servers = checks.map(
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
    location = /healthz { return 200 ${health(', "nodeEligible": true')}; }
    location = /livez { return 200 ${health()}; }
    location / { return 404; }
  }
  server {
    listen 127.0.0.1:${settings.metricsPort};
    default_type 'text/plain; charset=utf-8';
    ${sniff}
    location = /proxyMode { return 200 '${settings.mode}'; }
    location = /healthz { return 200 'ok'; }
    location = /metrics {
      alias ${place}.metrics;
      types { }
      default_type 'text/plain; version=0.0.4; charset=utf-8';
    }
    location / { return 404; }
  }
${servers.join('')}}
`
}

/** The nginx in a node that serves kube-proxy's health checks and metrics while kube-proxy runs. */
export class HealthServer {
  readonly #guest: GuestNode
  readonly #place = `${FOLDER}/${randomUUID()}`
  #written = ''
  #process: GuestProcess | undefined

  constructor(guest: GuestNode) {
    this.#guest = guest
  }

  /** Starts the server, or reloads a running one if the configuration has changed. */
  async serve(settings: Settings, checks: readonly HealthCheck[]): Promise<void> {
    const configuration = healthConfiguration(this.#place, settings, checks)
    if (configuration === this.#written && this.#process) return
    await this.#guest.write(`${this.#place}.conf`, configuration)
    // A signal to the process group would also reach the process that entered the node and waits
    // for nginx.
    const reload = `tries=50
until [ -s ${this.#place}.pid ] || [ $tries = 0 ]; do tries=$((tries - 1)); sleep 0.1; done
read -r pid <${this.#place}.pid && kill -HUP "$pid"\n`
    if (this.#process) await this.#guest.run(reload)
    this.#written = configuration
    if (this.#process) return
    const process = await this.#guest.spawn([
      'nginx',
      '-p',
      FOLDER,
      '-e',
      '/dev/null',
      '-c',
      `${this.#place}.conf`,
    ])
    process.stdout.resume()
    process.stderr.resume()
    this.#process = process
    void process.exited.then(() => {
      this.#process = undefined
    })
  }

  /** Replaces the text of /metrics. Rules are programmed even where it cannot be written. */
  async publish(metrics: string): Promise<void> {
    await this.#guest.write(`${this.#place}.metrics`, metrics).catch(() => {})
  }

  /** Stops the server, as when a kube-proxy ends; afterwards its ports are closed. */
  async close(): Promise<void> {
    this.#process?.kill('SIGKILL')
    await this.#process?.exited
  }
}
