import type { ProcessImage } from './registry.ts'

const wait = 'trap "exit 0" TERM INT; sleep infinity & wait'

/**
 * Everything the guest has: curl, ip, ss, conntrack, tcpdump, dig, iptables, ipvsadm, socat … It is a shell where its input is
 * open (a terminal or a socket), as for `kubectl debug -it`, and else waits until it is stopped.
 */
export const tools: ProcessImage = {
  names: [
    ...['tools', 'nicolaka/netshoot', 'busybox', 'alpine', 'debian', 'ubuntu', 'curlimages/curl'],
    ...['wbitt/network-multitool', 'praqma/network-multitool', 'registry.k8s.io/e2e-test-images/jessie-dnsutils'],
  ],
  // busybox 1.36, alpine 3.20, debian 12 or bookworm-slim, ubuntu 24.04 or noble, curl 8.5.0, netshoot v0.13 …
  tags: /^(v?([0-3]|[78]|1\d|2\d)(\.\d{1,2}){0,2}|stable|edge|bullseye|bookworm|trixie|focal|jammy|noble|extra|minimal)(-(slim|musl|glibc|uclibc))?$/,
  about: 'a shell with curl, dig, ip, ss, tcpdump, conntrack, iptables, socat; also as busybox or nicolaka/netshoot',
  command: ['sh', '-c', `if [ -t 0 ] || [ -S /proc/self/fd/0 ]; then exec bash; fi; ${wait}`],
}

/** The image that holds a Pod's namespaces elsewhere; here it only waits. */
export const pause: ProcessImage = {
  names: ['registry.k8s.io/pause', 'k8s.gcr.io/pause'],
  tags: /^3(\.\d{1,2})?$/,
  about: 'does nothing',
  command: ['sh', '-c', wait],
}
