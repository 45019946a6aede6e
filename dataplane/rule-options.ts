// The options of the iptables extensions: the grammar of parseRule. Source: the manual page iptables-extensions(8) of iptables 1.8.

/** The options of one extension with their number of arguments. */
export type Options = ReadonlyMap<string, number>

const PORTS = '--sport= --dport='
const MARKS = '--set-mark= --set-xmark= --and-mark= --or-mark= --xor-mark='

/** Each option is followed by a `=` for each of its arguments. */
function options(extensions: Record<string, string>): ReadonlyMap<string, Options> {
  const read = (list: string): Options =>
    new Map([...list.matchAll(/(--[\w-]+)(=*)/g)].map(([, option = '', ends = '']) => [option, ends.length]))
  return new Map(Object.entries(extensions).map(([name, list]) => [name, read(list)]))
}

/** Matches by module name (`-m NAME`). */
export const MATCH_OPTIONS = options({
  addrtype: '--limit-iface-in --limit-iface-out --src-type= --dst-type=',
  comment: '--comment=',
  connmark: '--mark=',
  conntrack:
    '--ctstate= --ctproto= --ctorigsrc= --ctorigdst= --ctreplsrc= --ctrepldst= --ctorigsrcport= --ctorigdstport= ' +
    '--ctreplsrcport= --ctrepldstport= --ctstatus= --ctexpire= --ctdir=',
  icmp: '--icmp-type=',
  icmp6: '--icmpv6-type=',
  iprange: '--src-range= --dst-range=',
  ipvs: '--ipvs --vproto= --vaddr= --vport= --vdir= --vmethod= --vportctl=',
  limit: '--limit= --limit-burst=',
  mark: '--mark=',
  multiport: '--sports= --dports= --ports=',
  nfacct: '--nfacct-name=',
  physdev: '--physdev-is-in --physdev-is-out --physdev-is-bridged --physdev-in= --physdev-out=',
  recent: '--set --rcheck --update --remove --reap --rttl --rsource --rdest --name= --mask= --seconds= --hitcount=',
  sctp: `${PORTS} --chunk-types==`,
  set:
    '--return-nomatch --update-counters --update-subcounters --packets-eq= --packets-lt= --packets-gt= --bytes-eq= ' +
    '--bytes-lt= --bytes-gt= --match-set==',
  state: '--state=',
  statistic: '--mode= --probability= --every= --packet=',
  tcp: `--syn ${PORTS} --tcp-option= --tcp-flags==`,
  udp: PORTS,
})

/** Targets by name (`-j NAME`); any other name is a chain, or a target that is not modelled. */
export const TARGET_OPTIONS = options({
  CONNMARK: `--save-mark --restore-mark ${MARKS} --nfmask= --ctmask=`,
  CT: '--notrack --helper= --ctevents= --expevents= --zone= --zone-orig= --zone-reply= --timeout=',
  DNAT: '--random --persistent --to-destination=',
  LOG: '--log-tcp-sequence --log-tcp-options --log-ip-options --log-uid --log-macdecode --log-level= --log-prefix=',
  MARK: MARKS,
  MASQUERADE: '--random --random-fully --to-ports=',
  NFLOG: '--nflog-group= --nflog-prefix= --nflog-range= --nflog-size= --nflog-threshold=',
  NFQUEUE: '--queue-bypass --queue-cpu-fanout --queue-num= --queue-balance=',
  REDIRECT: '--random --to-ports=',
  REJECT: '--reject-with=',
  SNAT: '--random --random-fully --persistent --to-source=',
  TCPMSS: '--clamp-mss-to-pmtu --set-mss=',
})

/** Options whose value iptables-save quotes unless it contains only letters, digits, `-` and `_`. */
export const QUOTED_OPTIONS = new Set(['--comment', '--log-prefix', '--nflog-prefix', '--string', '--nfacct-name'])

/** Other spellings that the command line accepts and iptables-save never prints. */
export const ALIASES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    '--source': '-s',
    '--src': '-s',
    '--destination': '-d',
    '--dst': '-d',
    '--in-interface': '-i',
    '--out-interface': '-o',
    '--protocol': '-p',
    '--proto': '-p',
    '--fragment': '-f',
    '--match': '-m',
    '--jump': '-j',
    '--goto': '-g',
    '--source-port': '--sport',
    '--destination-port': '--dport',
    '--source-ports': '--sports',
    '--destination-ports': '--dports',
  }),
)
