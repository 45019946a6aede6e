// What `ipvsadm -Sn` prints:  -A -t 10.96.0.1:443 -s rr / -a -t 10.96.0.1:443 -r 172.18.0.2:6443 -m -w 1

export type IpvsProtocol = 'TCP' | 'UDP' | 'SCTP' | 'FWM'

export interface RealServer {
  address: string
  port: number
  forward: 'masq' | 'route' | 'tunnel'
  weight: number
}

/** One virtual server. For FWM `address` is the firewall mark and `port` 0; `persistent` is in seconds. */
export interface VirtualServer {
  protocol: IpvsProtocol
  address: string
  port: number
  scheduler: string
  persistent?: number
  netmask?: string
  flags: string[]
  realServers: RealServer[]
}
