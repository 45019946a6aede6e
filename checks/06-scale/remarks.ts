import type { Measurement } from './measurement.ts'

/** What has to stand beside the figures: where they come from, what others have measured, and what does not carry over. */
export function scaleRemarks({ at, machine, endpoints, rate, seconds }: Measurement): string[] {
  return [
    `Measured ${at.slice(0, 10)} in ${seconds} s on ${machine}.`,
    `${endpoints} endpoints for each Service, one real backend behind the last; CPU at ${rate} new connections a second.`,
    'Published elsewhere: hardly a difference below 1,000 Services (10,000 Pods), and none with keep-alive;',
    'at 10,000 Services iptables mode takes about 35 % of a core more, IPVS mode about 8 %.',
    'Carries over: which curve is a line and which is flat. Does not: seconds, per cents and where the curves part.',
    'This kernel runs as a program on another one and is slower at everything; here is what the kernel is asked to do,',
    'without the thinking of kube-proxy itself, which in IPVS mode compares every Service at every sync.',
  ]
}
