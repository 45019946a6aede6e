/** Rules that other software keeps in the tables that kube-proxy writes to, as a node has them. */
export interface ForeignRules {
  who: string
  table: 'nat' | 'filter' | 'mangle'
  chains: readonly string[]
  /** Rules of its own chains. */
  rules: readonly string[]
  /** Rules that it puts on top of a built-in chain. */
  onTop: readonly string[]
  /** Rules that it appends to one. */
  below: readonly string[]
}

export const FOREIGN_RULES: readonly ForeignRules[] = [
  {
    who: 'Docker',
    table: 'nat',
    chains: ['DOCKER'],
    rules: [
      '-A DOCKER -i docker0 -j RETURN',
      '-A DOCKER ! -i docker0 -p tcp -m tcp --dport 8080 -j DNAT --to-destination 172.17.0.2:80',
    ],
    onTop: ['-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE'],
    below: [
      '-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER',
      '-A OUTPUT ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER',
    ],
  },
  {
    who: 'Docker',
    table: 'filter',
    chains: ['DOCKER', 'DOCKER-USER', 'DOCKER-ISOLATION-STAGE-1'],
    rules: [
      '-A DOCKER-USER -j RETURN',
      '-A DOCKER-ISOLATION-STAGE-1 -j RETURN',
      '-A DOCKER -d 172.17.0.2/32 ! -i docker0 -o docker0 -p tcp -m tcp --dport 80 -j ACCEPT',
    ],
    onTop: [
      '-A FORWARD -j DOCKER-USER',
      '-A FORWARD -j DOCKER-ISOLATION-STAGE-1',
      '-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
      '-A FORWARD -o docker0 -j DOCKER',
      '-A FORWARD -i docker0 ! -o docker0 -j ACCEPT',
    ],
    below: [],
  },
  {
    who: 'kind',
    table: 'nat',
    chains: ['DOCKER_OUTPUT', 'DOCKER_POSTROUTING'],
    rules: [
      '-A DOCKER_OUTPUT -d 172.18.0.1/32 -p udp -m udp --dport 53 -j DNAT --to-destination 127.0.0.11:44444',
      '-A DOCKER_POSTROUTING -s 127.0.0.11/32 -p udp -m udp --sport 44444 -j SNAT --to-source 172.18.0.1:53',
    ],
    onTop: [],
    below: [
      '-A PREROUTING -d 172.18.0.1/32 -j DOCKER_OUTPUT',
      '-A OUTPUT -d 172.18.0.1/32 -j DOCKER_OUTPUT',
      '-A POSTROUTING -d 172.18.0.1/32 -j DOCKER_POSTROUTING',
    ],
  },
  {
    who: 'a CNI plugin (portmap, bridge)',
    table: 'nat',
    chains: ['CNI-HOSTPORT-DNAT', 'CNI-HOSTPORT-MASQ', 'CNI-HOSTPORT-SETMARK', 'CNI-0a1b2c3d4e5f60718293a4b5'],
    rules: [
      '-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE',
      '-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x2000/0x2000',
      '-A CNI-0a1b2c3d4e5f60718293a4b5 -d 10.88.0.0/16 -j ACCEPT',
      '-A CNI-0a1b2c3d4e5f60718293a4b5 ! -d 224.0.0.0/4 -j MASQUERADE',
    ],
    onTop: ['-A POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ'],
    below: [
      '-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT',
      '-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT',
      '-A POSTROUTING -s 10.88.0.5/32 -m comment --comment "name: \\"podman\\" id: \\"f00\\"" -j CNI-0a1b2c3d4e5f60718293a4b5',
    ],
  },
  {
    who: 'firewalld',
    table: 'nat',
    chains: [
      'PREROUTING_direct',
      'PREROUTING_ZONES',
      'POSTROUTING_direct',
      'POSTROUTING_ZONES',
      'OUTPUT_direct',
      'PRE_trusted',
      'POST_trusted',
    ],
    rules: [
      '-A PREROUTING_ZONES -s 10.244.0.0/16 -g PRE_trusted',
      '-A POSTROUTING_ZONES -d 10.244.0.0/16 -g POST_trusted',
    ],
    onTop: [
      '-A PREROUTING -j PREROUTING_direct',
      '-A PREROUTING -j PREROUTING_ZONES',
      '-A OUTPUT -j OUTPUT_direct',
      '-A POSTROUTING -j POSTROUTING_direct',
      '-A POSTROUTING -j POSTROUTING_ZONES',
    ],
    below: [],
  },
  {
    who: 'firewalld',
    table: 'filter',
    chains: ['INPUT_direct', 'INPUT_ZONES', 'IN_trusted'],
    rules: [
      '-A INPUT_ZONES -s 10.244.0.0/16 -g IN_trusted',
      '-A INPUT_ZONES -s 172.18.0.0/16 -g IN_trusted',
      '-A IN_trusted -j ACCEPT',
    ],
    onTop: [],
    below: [
      '-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -j ACCEPT',
      '-A INPUT -i lo -j ACCEPT',
      '-A INPUT -j INPUT_direct',
      '-A INPUT -j INPUT_ZONES',
      '-A INPUT -m conntrack --ctstate INVALID -j DROP',
    ],
  },
  {
    who: 'Tailscale',
    table: 'nat',
    chains: ['ts-postrouting'],
    rules: ['-A ts-postrouting -m mark --mark 0x40000/0xff0000 -j MASQUERADE'],
    onTop: ['-A POSTROUTING -j ts-postrouting'],
    below: [],
  },
  {
    who: 'Tailscale',
    table: 'filter',
    chains: ['ts-input', 'ts-forward'],
    rules: [
      '-A ts-input -s 100.101.102.103/32 -i lo -j ACCEPT',
      '-A ts-input -s 100.115.92.0/23 ! -i tailscale0 -j RETURN',
      '-A ts-input -s 100.64.0.0/10 ! -i tailscale0 -j DROP',
      '-A ts-forward -i tailscale0 -j MARK --set-xmark 0x40000/0xff0000',
      '-A ts-forward -m mark --mark 0x40000/0xff0000 -j ACCEPT',
      '-A ts-forward -s 100.64.0.0/10 -o tailscale0 -j DROP',
      '-A ts-forward -o tailscale0 -j ACCEPT',
    ],
    onTop: ['-A INPUT -j ts-input', '-A FORWARD -j ts-forward'],
    below: [],
  },
]
