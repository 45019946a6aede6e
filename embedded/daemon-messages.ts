import type { KernelName } from './machine/kernel.ts'

/** What the daemon is told when it starts. */
export interface DaemonOptions {
  name: string
  packages: string
  kernel: KernelName
  /** A genuine kube-proxy to run instead of ours. */
  kubeProxy?: string
}

/** What the daemon tells whoever started it. */
export type DaemonMessage =
  | { type: 'start'; text: string }
  | { type: 'end'; text?: string }
  | { type: 'note'; text: string }
  | { type: 'ready' }
  | { type: 'failed'; text: string }
