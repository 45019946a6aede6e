import type { Readable } from 'node:stream'
import type { GuestProcess, RunResult } from '../machine/machine.ts'

export interface ExecRequest {
  /** A container of a Pod, or a whole node (the `nodes/NAME/exec` subresource that only this cluster has). */
  target: { kind: 'pod'; namespace: string; name: string; container?: string } | { kind: 'node'; name: string }
  command: string[]
  tty: boolean
}

export interface LogRequest {
  namespace: string
  name: string
  container?: string
  follow: boolean
  previous: boolean
  timestamps: boolean
  tailLines?: number
  sinceSeconds?: number
  limitBytes?: number
}

/** What the API server asks of the kubelets. Both reject with a StatusError when the target can't serve it. */
export interface NodeBackend {
  exec(request: ExecRequest): Promise<GuestProcess>
  /** Runs a shell script on a node to its end (`nodes/NAME/script`, which only this cluster has). */
  script(node: string, text: string): Promise<RunResult>
  /** Resolves when the node's kube-proxy has programmed what the API holds (`nodes/NAME/synced`); at once where that can't be told. */
  synced(node: string): Promise<void>
  /** Ends when the log ends (or, following, when the container does); destroy it to stop following. */
  logs(request: LogRequest): Promise<Readable>
}
