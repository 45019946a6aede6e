import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import type { Measurement } from './measurement.ts'

/** Published measurements, made on other machines with other rates and clients. */
export const published: { cpuPercent: Record<SwitchedMode, number>; smallBelow: number } = {
  cpuPercent: { iptables: 35, ipvs: 8 },
  smallBelow: 1000,
}

/** The notes below the figures: their source, published figures, and what does not apply to other machines. */
export function scaleRemarks({ at, machine, endpoints, rate, seconds }: Measurement): string[] {
  const { cpuPercent, smallBelow } = published
  return [
    `Measured ${at.slice(0, 10)} in ${seconds} s on ${machine}.`,
    `${endpoints} endpoints for each Service, a real Pod behind the first and the last; CPU at ${rate} new connections a second.`,
    `Published elsewhere: hardly a difference below ${smallBelow} Services (10,000 Pods), and none with keep-alive;`,
    `at 10,000 Services iptables mode takes about ${cpuPercent.iptables} % of a core more, IPVS mode about ${cpuPercent.ipvs} %.`,
    'Carries over: which curve is a line and which is flat. Does not: seconds, per cents and where the curves part.',
    'This kernel runs as a program on another one and is slower at everything; here is what the kernel is asked to do,',
    'without the thinking of kube-proxy itself, which in IPVS mode compares every Service at every sync.',
  ]
}
