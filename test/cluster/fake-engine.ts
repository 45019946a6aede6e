import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { NodeListServer } from './node-list-server.ts'

/** A `docker` that knows what is in its folder, and logs what it is asked. */
const docker = `#!/bin/sh
cd "$(dirname "$0")/.."
echo "docker $*" >>log
case "$1 $2" in
  "info --format") [ -e engine ] && echo 28.0 ;;
  "ps -a") [ -e engine ] || { echo 'Cannot connect to the Docker daemon' >&2; exit 1; }; cat containers ;;
  "image inspect") for last; do :; done; grep -qxF "$last" images && { case $* in *index*) cat label ;; esac; true; } ;;
  "manifest inspect") [ -e registry ] ;;
  "build --tag") cat >recipe; echo "$3" >>images; [ ! -e broken-build ] || { cat broken-build >&2; exit 100; } ;;
  "exec "*) shift; [ "$1" != -i ] || shift; node=$1; shift
     case $* in *images\\ ls*) cat node-images 2>/dev/null ;; *) exec "$@" ;; esac ;;
  "inspect --format") case $3 in *Status*) for one; do sed -n "s/^\\($one\\)\\t/\\/\\1 /p" containers; done ;; *StartedAt*) cat started 2>/dev/null ;; *IPAddress*) cat addresses 2>/dev/null ;; esac ;;
  pull*) echo "$2" >>images ;;
  tag*) echo "$3" >>images ;;
  stop*) shift; for one; do sed "s/^$one\\t.*/$one\\texited/" containers >new && mv new containers; done ;;
  unpause*|start*) for one; do sed "s/^$one\\t.*/$one\\trunning/" containers >new && mv new containers; done ;;
  rm*) [ ! -e stuck ] || exec sleep 600; exit 1 ;;
  *) exit 1 ;;
esac
`

/** A \`kind\` that makes three containers, and hangs in the middle when it is told to. */
const kind = `#!/bin/sh
cd "$(dirname "$0")/.."
echo "kind $*" >>log
config=$(echo "$*" | sed -n 's/.*--kubeconfig \\([^ ]*\\).*/\\1/p')
node() { printf '%s-%s\\trunning\\n' "$name" "$1" >>containers; }
name=$(echo "$*" | sed -n 's/.*--name \\([^ ]*\\).*/\\1/p')
case "$1 $2" in
  version*) echo "kind $(cat release) go1.27 linux/amd64" ;;
  "create cluster")
    [ ! -e refuse ] || { echo 'ERROR: failed to create cluster: no space left' >&2; exit 1; }
    node control-plane; node worker
    [ ! -e hang ] || { echo $$ >creating; exec sleep 60; }
    node worker2; cp kubeconfig "$config" ;;
  "delete cluster") : >containers ;;
  "load "*) ;;
  "export kubeconfig") [ -e initialised ] && cp kubeconfig "$config" ;;
esac
`

/** The machine may have a Podman of its own; here there is none. */
const podman = '#!/bin/sh\nexit 125\n'

/** What a test sets up in the folder of the two programs, and reads from it. */
export class FakeEngine {
  readonly folder = mkdtempSync(join(tmpdir(), 'engine-'))
  readonly path = `${join(this.folder, 'bin')}${delimiter}${process.env.PATH}`
  /** Readiness of each node that the API server knows. */
  apiNodes: boolean[] = [true, true, true]
  /**
   * Names of those nodes, each with the time its kubelet spoke last; without one they are numbered.
   */
  heartbeats = new Map<string, string>()
  apiAnswers = true
  readonly #server: NodeListServer

  constructor() {
    mkdirSync(join(this.folder, 'bin'))
    for (const [name, script] of Object.entries({ docker, podman, kind })) {
      writeFileSync(join(this.folder, 'bin', name), script)
      chmodSync(join(this.folder, 'bin', name), 0o755)
    }
    for (const [file, text] of Object.entries({
      containers: '',
      images: '',
      log: '',
      label: '',
      release: 'v0.33.0',
    }))
      this.write(file, text)
    this.write('engine')
    this.#server = new NodeListServer(() => {
      if (!this.apiAnswers) return undefined
      const heard = [...this.heartbeats]
      return this.apiNodes.map((ready, index) => {
        const [name = `node-${index}`, lastHeartbeatTime] = heard[index] ?? []
        return {
          metadata: { name },
          status: {
            conditions: [{ type: 'Ready', status: ready ? 'True' : 'False', lastHeartbeatTime }],
          },
        }
      })
    })
  }

  async start(): Promise<void> {
    this.write('kubeconfig', await this.#server.start())
  }

  stop(): void {
    this.#server.stop()
    rmSync(this.folder, { recursive: true })
  }

  write(file: string, text = ''): void {
    writeFileSync(join(this.folder, file), text)
  }

  remove(file: string): void {
    rmSync(join(this.folder, file), { force: true })
  }

  has(file: string): boolean {
    return existsSync(join(this.folder, file))
  }

  read(file: string): string {
    return readFileSync(join(this.folder, file), 'utf8')
  }

  /** Containers of a cluster by role, in this state. */
  writeContainers(cluster: string, roles: Record<string, 'running' | 'exited' | 'paused'>): void {
    const lines = Object.entries(roles).map(([role, state]) => `${cluster}-${role}\t${state}\n`)
    this.write('containers', lines.join(''))
  }

  /**
   * What was asked for that changes something: `kind create`, `kind delete`, `docker start` …
   * without their options.
   */
  deeds(): string[] {
    const deeds = this.read('log').match(
      /^(kind (create|delete|export)|docker (start|unpause|build))/gm,
    )
    return deeds ?? []
  }
}
