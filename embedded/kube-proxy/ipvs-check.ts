import type { GuestNode } from './guest-node.ts'
import type { Logger } from './klog.ts'
import { StartFailure } from './settings.ts'

/**
 * What kube-proxy asks of a kernel before it runs in IPVS mode (1.27–1.34: CanUseIPVSProxier): IPVS answers, ipset runs, and
 * a virtual server with the scheduler can be made on a test address of RFC 5737. The modprobe stands in for the kernel
 * loading modules by itself when a genuine kube-proxy asks over netlink.
 */
const probe = (scheduler: string) => `
command -v ipset >/dev/null || { echo 'no-ipset executable file not found in $PATH'; exit; }
# The module of a scheduler is loaded by the first virtual server that asks for it: then nothing is left to be tried.
[ -d '/sys/module/ip_vs_${scheduler}' ] && [ -d /sys/module/xt_set ] && [ -d /sys/module/dummy ] && { echo fine; exit; }
modprobe -qab ip_vs 'ip_vs_${scheduler}' ip_set xt_set dummy 2>/dev/null
[ -e /proc/net/ip_vs ] || { echo no-ipvs; exit; }
error=$(ipset --version 2>&1) || { echo "no-ipset $error"; exit; }
said=$(printf '%s\\n' '-A -t 198.51.100.0:20000 -s ${scheduler}' '-D -t 198.51.100.0:20000' | ipvsadm -R 2>&1)
[ -z "$said" ] || { echo no-scheduler; exit; }
echo fine
`

/** @throws StartFailure in kube-proxy's words when the kernel can't do it */
export async function checkIpvs(node: GuestNode, scheduler: string, log: Logger): Promise<void> {
  const safe = /^[\w-]+$/.test(scheduler) ? scheduler : 'no-such-scheduler'
  const { stdout } = await node.run(probe(safe))
  const answer = stdout.trim()
  if (answer === 'fine') return
  let reason = 'Ipvs not supported by the kernel'
  if (answer.startsWith('no-ipset')) reason = `error getting ipset version, error: ${answer.slice(9)}`
  else if (answer === 'no-scheduler') {
    reason = 'no such file or directory'
    log('E', 'proxier.go:651', 'Could not create dummy VS', { err: reason, scheduler })
  }
  throw new StartFailure(`can't use the IPVS proxier: ${reason}`)
}
