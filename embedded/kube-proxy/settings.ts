import { parse } from 'yaml'
import {
  ConfigError,
  KERNEL_MODES,
  type KubeProxyConfig,
  type KubeProxyMode,
  parseKubeProxyConfiguration,
} from '../../dataplane/kube-proxy/config.ts'
import { writeMode } from '../../dataplane/kube-proxy/config-conf.ts'
import { featuresOf } from '../../dataplane/kube-proxy/versions.ts'
import type { Api, KubeObject } from '../apiserver/api.ts'
import { gitVersion } from '../apiserver/documents.ts'
import type { Pod } from '../controllers/resources.ts'
import type { Sysctl } from './guest-node.ts'

/** kube-proxy fails at its start; `message` is its output before it exits with 1. */
export class StartFailure extends Error {}

export interface Settings {
  config: KubeProxyConfig
  mode: KubeProxyMode
  syncPeriodMs: number
  minSyncPeriodMs: number
  /** Of conntrack, without those that keep the kernel's value. */
  sysctls: readonly Sysctl[]
  healthzPort: number
  metricsPort: number
}

type Data = { data?: Record<string, string> } & KubeObject

/**
 * kube-proxy's configuration in the ConfigMap that its Pod mounts. Throws StartFailure if it does
 * not exist.
 */
export function mountedConfig({ metadata, spec }: Pod, api: Api): string {
  const name = spec.volumes?.find(({ configMap }) => configMap)?.configMap?.name
  const text = name && api.get<Data>('configmaps', metadata.namespace, name)?.data?.['config.conf']
  if (!text)
    throw new StartFailure(
      'failed complete: open /var/lib/kube-proxy/config.conf: no such file or directory',
    )
  return text
}

/**
 * Reads a KubeProxyConfiguration as kube-proxy 1.34 does at its start; an older one may also run in
 * userspace mode.
 * @throws StartFailure with kube-proxy's message for an unknown mode, and for invalid text
 */
export function readSettings(text: string, version = gitVersion): Settings {
  let raw: Raw
  try {
    raw = (parse(text) ?? {}) as Raw
  } catch (error) {
    const reason = error instanceof Error ? error.message.split('\n')[0] : String(error)
    throw new StartFailure(`failed complete: error converting YAML to JSON: yaml: ${reason}`)
  }
  const mode = raw.mode || 'iptables'
  if (!isMode(mode, version))
    throw new StartFailure(
      `failed validate: KubeProxyConfiguration.Mode: Invalid value: ${JSON.stringify(raw.mode)}: must be iptables,ipvs,nftables or blank (blank means the best-available proxy [currently iptables])`,
    )
  const own = (mode === 'ipvs' ? raw.ipvs : mode === 'nftables' ? raw.nftables : raw.iptables) ?? {}
  const config = settingsConfig(text, raw)
  const seconds = (text: string | undefined, usual: number) =>
    (parseDuration(text) ?? usual * 1000) / 1000
  const sysctls: Sysctl[] = [
    [
      'net/netfilter/nf_conntrack_tcp_timeout_established',
      seconds(raw.conntrack?.tcpEstablishedTimeout, 86_400),
    ],
    [
      'net/netfilter/nf_conntrack_tcp_timeout_close_wait',
      seconds(raw.conntrack?.tcpCloseWaitTimeout, 3600),
    ],
    ['net/netfilter/nf_conntrack_tcp_be_liberal', Number(config.conntrackTCPLiberal)],
  ]
  return {
    config,
    mode,
    sysctls: sysctls.filter(([, value]) => value > 0),
    syncPeriodMs: parseDuration(own.syncPeriod) || 30_000,
    minSyncPeriodMs: parseDuration(own.minSyncPeriod) ?? (mode === 'ipvs' ? 0 : 1000),
    healthzPort: port(raw.healthzBindAddress, 10_256),
    metricsPort: port(raw.metricsBindAddress, 10_249),
  }
}

interface Raw {
  mode?: string
  healthzBindAddress?: string
  metricsBindAddress?: string
  ipvs?: { scheduler?: string; syncPeriod?: string; minSyncPeriod?: string } | null
  conntrack?: { tcpEstablishedTimeout?: string; tcpCloseWaitTimeout?: string } | null
  iptables?: { syncPeriod?: string; minSyncPeriod?: string } | null
  nftables?: { syncPeriod?: string; minSyncPeriod?: string } | null
}

const isMode = (text: string, version: string): text is Settings['mode'] =>
  (text === 'nftables'
    ? featuresOf(version).nftables !== 'none'
    : KERNEL_MODES.some((mode) => mode === text)) ||
  (text === 'userspace' && featuresOf(version).userspace)

/**
 * The scheduler's name is not validated: kube-proxy accepts any name since 1.27 and tests it in the
 * kernel.
 */
function settingsConfig(text: string, raw: Raw): KubeProxyConfig {
  const scheduler = raw.ipvs?.scheduler
  try {
    const usable = scheduler
      ? writeMode(text, { mode: raw.mode || 'iptables', scheduler: 'rr' })
      : text
    const config = parseKubeProxyConfiguration(usable)
    return scheduler ? { ...config, ipvs: { ...config.ipvs, scheduler } } : config
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const faults = error.faults.map(
      ({ field, message }) => `KubeProxyConfiguration.${field}: ${message}`,
    )
    throw new StartFailure(
      `failed validate: ${faults.length > 1 ? `[${faults.join(', ')}]` : faults[0]}`,
    )
  }
}

const units: Record<string, number> = { h: 3_600_000, m: 60_000, s: 1000, ms: 1 }

/** Milliseconds of a Go duration such as `1m30s`; undefined if it is missing or invalid. */
export function parseDuration(text: string | undefined): number | undefined {
  if (typeof text !== 'string' || !/^(\d+(\.\d+)?(h|ms|m|s))+$/.test(text)) return undefined
  let total = 0
  for (const [, number, unit] of text.matchAll(/(\d+(?:\.\d+)?)(h|ms|m|s)/g))
    total += Number(number) * (units[unit ?? ''] ?? 0)
  return total
}

function port(address: string | undefined, fallback: number): number {
  const text = /:(\d{1,5})$/.exec(address ?? '')?.[1]
  return text === undefined ? fallback : Number(text)
}

/** klog's severity letters. */
export type LogSeverity = 'I' | 'W' | 'E' | 'F'

/**
 * One line in klog's text format: `I1121 00:38:05.726171 1 server_linux.go:165] "Using iptables
 * Proxier" ipFamily="IPv4"`.
 */
export function klogLine(
  severity: LogSeverity,
  place: string,
  message: string,
  values: Record<string, unknown> = {},
  now = new Date(),
): string {
  const [, month, day, time] = /^\d+-(\d+)-(\d+)T(.*)Z$/.exec(now.toISOString()) ?? []
  const pairs = Object.entries(values).map(([key, value]) => ` ${key}=${JSON.stringify(value)}`)
  return `${severity}${month}${day} ${time}000       1 ${place}] ${JSON.stringify(message)}${pairs.join('')}`
}

/** Writes log lines of one kube-proxy. */
export type Logger = (
  severity: LogSeverity,
  place: string,
  message: string,
  values?: Record<string, unknown>,
) => void

/** A logger that writes lines to a container's log. */
export const createLogger =
  (write: (line: string) => void): Logger =>
  (severity, place, message, values) =>
    write(klogLine(severity, place, message, values))
