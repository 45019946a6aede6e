import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import type { ExecResult } from '../../host/shell-word.ts'
import type { GuestProcess, SpawnOptions } from '../machine/machine.ts'
import type { Api } from './api.ts'
import type { ResourceTarget } from './resource.ts'
import type { Schema } from './schema.ts'

export interface PodTarget {
  namespace: string
  name: string
}

export interface ContainerTarget extends PodTarget {
  container: string
}

export interface ExecRequest {
  /**
   * A container of a Pod, or a whole node (the `nodes/NAME/exec` subresource that only this cluster
   * has).
   */
  target: ({ kind: 'pod' } & ContainerTarget) | { kind: 'node'; name: string }
  command: string[]
  tty: boolean
}

/** Starts a command, or attaches to a running one, with a terminal of that size. */
export type StartCommand = (size?: SpawnOptions['size']) => Promise<GuestProcess>

export interface LogRequest extends ContainerTarget {
  follow: boolean
  previous: boolean
  timestamps: boolean
  tailLines?: number | undefined
  sinceSeconds?: number | undefined
  limitBytes?: number | undefined
}

/** CPU time and memory in use. */
export interface Usage {
  nanocores: number
  kibibytes: number
}

/** The usage of the nodes during the last seconds. */
export interface UsageReport {
  seconds: number
  nodes: ReadonlyMap<string, Usage>
  /** By the Pod's uid and the container's name. */
  pods: ReadonlyMap<string, ReadonlyMap<string, Usage>>
}

/**
 * What the API server requests from the kubelets. All throw or reject with a StatusError if the
 * target can't serve them.
 */
export interface NodeBackend {
  exec(request: ExecRequest): StartCommand
  /**
   * Attaches to the input and output of a running container; killing the returned process only
   * detaches.
   */
  attach(target: ContainerTarget): StartCommand
  /** Opens connections to TCP ports of a Pod's loopback interface. */
  dial(pod: PodTarget): (port: number) => Promise<GuestProcess>
  /**
   * Runs a shell script on a node to its end (`nodes/NAME/script`, which only this cluster has).
   */
  script(node: string, text: string): Promise<ExecResult>
  /**
   * Resolves when the node's kube-proxy has programmed the current objects (`nodes/NAME/synced`),
   * immediately if that is unknown.
   */
  synced(node: string): Promise<void>
  /**
   * Ends when the log ends (or, following, when the container does); destroy it to stop following.
   */
  logs(request: LogRequest): Promise<Readable>
  usage(): Promise<UsageReport>
}

/** One request for a resource, with everything that its handler needs. */
export interface ApiCall extends Omit<ResourceTarget, 'is'> {
  api: Api
  backend: NodeBackend
  schema: Schema
  request: IncomingMessage
  response: ServerResponse
  query: URLSearchParams
  /** The client prefers objects as a table. */
  asTable: boolean
}

/** A boolean query parameter: present and not `false` or `0`. */
export function flag(query: URLSearchParams, name: string): boolean {
  const value = query.get(name)
  return value !== null && value !== 'false' && value !== '0'
}

/** A whole number in the query, or undefined. */
export function number(query: URLSearchParams, name: string): number | undefined {
  const value = query.get(name)
  return value !== null && /^\d+$/.test(value) ? Number(value) : undefined
}
