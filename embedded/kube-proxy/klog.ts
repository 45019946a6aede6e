/** Letters with which klog begins a line. */
export type Severity = 'I' | 'W' | 'E' | 'F'

const two = (number: number, width = 2) => String(number).padStart(width, '0')

const shown = (value: unknown): string =>
  typeof value === 'number' || typeof value === 'boolean' ? String(value) : JSON.stringify(value)

/**
 * One line in klog's text format with structured values, as kube-proxy has written them since 1.26:
 * `I1121 00:38:05.726171       1 server_linux.go:165] "Using iptables Proxier" ipFamily="IPv4"`.
 */
export function klogLine(
  severity: Severity,
  place: string,
  message: string,
  values: Record<string, unknown> = {},
  now = new Date(),
): string {
  const date = `${two(now.getUTCMonth() + 1)}${two(now.getUTCDate())}`
  const time = `${two(now.getUTCHours())}:${two(now.getUTCMinutes())}:${two(now.getUTCSeconds())}.${two(now.getUTCMilliseconds(), 3)}000`
  const pairs = Object.entries(values).map(([key, value]) => ` ${key}=${shown(value)}`)
  return `${severity}${date} ${time}       1 ${place}] ${JSON.stringify(message)}${pairs.join('')}`
}

/** Writes log lines of one kube-proxy. */
export type Logger = (severity: Severity, place: string, message: string, values?: Record<string, unknown>) => void

/** A logger that hands finished lines to a container's log. */
export const createLogger =
  (write: (line: string) => void): Logger =>
  (severity, place, message, values) =>
    write(klogLine(severity, place, message, values))
