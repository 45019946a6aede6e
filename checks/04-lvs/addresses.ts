// Addresses that nobody else has: TEST-NET-1 (RFC 5737) and the range for benchmarks (RFC 2544).

/** Of the virtual servers that forward by NAT. Only the director has it. */
export const VIP = '192.0.2.10'
/** Of those that forward by direct routing or through a tunnel: real servers have it, too. */
export const SHARED_VIP = '192.0.2.11'
/** What kube-proxy has to leave alone. */
export const VIPS = [VIP, SHARED_VIP]
/** How many clients there may be, and as many destinations. */
export const NETWORK_SIZE = 2 ** 16
/** Clients, out of 198.18.0.0/16: the machine outside may send from each of these addresses. */
export const client = (number: number) => `198.18.${hostPart(number)}`
/** Destinations that the director takes in by firewall mark: 198.19.0.0/16. */
export const destination = (number: number) => `198.19.${hostPart(number)}`

/** Numbers in a row lie scattered over the network, as neighbours would make a multiplicative hash look regular. */
function hostPart(number: number): string {
  const product = (number * 28_411) % NETWORK_SIZE
  const scattered = ((product ^ (product >> 7)) * 31_337) % NETWORK_SIZE
  return `${scattered >> 8}.${scattered & 255}`
}

/** Where real servers listen. Direct routing and tunnels keep the port, so those methods have one each. */
export const REAL_PORT = { masq: 8090, route: 8091, tunnel: 8092 } as const

/**
 * A second real server on each node. Far from the first: mh adds port and address before it hashes (ip_vs_mh.c:
 * ip_vs_mh_hashkey), so that neighbours on both counts would be one and the same to it.
 */
export const SECOND_PORT = 8990

/** Scheduler → port of its virtual server, or the firewall mark that equals the port. */
export const PORT = {
  ...{ rr: 8101, wrr: 8102, lc: 8103, wlc: 8104, sed: 8105, nq: 8106 },
  ...{ sh: 8107, mh: 8108, dh: 8109, lblc: 8110, lblcr: 8111 },
} as const

/** The port of the virtual server that lacks one of the real servers. */
export const withoutOne = (port: number) => port + 10
