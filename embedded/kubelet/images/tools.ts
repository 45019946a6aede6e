import type { ProcessImage } from './registry.ts'

/** Everything the guest has: curl, ip, ss, conntrack, tcpdump, dig, iptables, ipvsadm, socat … It waits until it is stopped. */
export const tools: ProcessImage = {
  names: [
    ...['tools', 'nicolaka/netshoot', 'busybox', 'alpine', 'debian', 'ubuntu', 'curlimages/curl'],
    ...['wbitt/network-multitool', 'praqma/network-multitool', 'registry.k8s.io/e2e-test-images/jessie-dnsutils'],
  ],
  about: 'a shell with curl, dig, ip, ss, tcpdump, conntrack, iptables, socat; also as busybox or nicolaka/netshoot',
  command: ['sh', '-c', 'trap "exit 0" TERM INT; sleep infinity & wait'],
}

/** The image that holds a Pod's namespaces elsewhere; here it only waits. */
export const pause: ProcessImage = {
  names: ['registry.k8s.io/pause', 'k8s.gcr.io/pause'],
  about: 'does nothing',
  command: ['sh', '-c', 'trap "exit 0" TERM INT; sleep infinity & wait'],
}
