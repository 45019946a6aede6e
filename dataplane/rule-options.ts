// The options of the iptables extensions and their number of arguments: the grammar of parseRule. Source: the
// manual page iptables-extensions(8) of iptables 1.8.

/** Number of arguments of an option. */
type Arity = 0 | 1 | 2

export type Options = ReadonlyMap<string, Arity>

function options(...groups: [Arity, string][]): Options {
  return new Map(groups.flatMap(([arity, names]) => names.split(' ').map((name): [string, Arity] => [name, arity])))
}

const PORTS = '--sport --dport --source-port --destination-port'

/** Matches by module name (`-m NAME`). */
export const MATCH_OPTIONS: ReadonlyMap<string, Options> = new Map([
  ['addrtype', options([0, '--limit-iface-in --limit-iface-out'], [1, '--src-type --dst-type'])],
  ['comment', options([1, '--comment'])],
  ['connmark', options([1, '--mark'])],
  [
    'conntrack',
    options([
      1,
      '--ctstate --ctproto --ctorigsrc --ctorigdst --ctreplsrc --ctrepldst --ctorigsrcport --ctorigdstport ' +
        '--ctreplsrcport --ctrepldstport --ctstatus --ctexpire --ctdir',
    ]),
  ],
  ['icmp', options([1, '--icmp-type'])],
  ['icmp6', options([1, '--icmpv6-type'])],
  ['iprange', options([1, '--src-range --dst-range'])],
  ['ipvs', options([0, '--ipvs'], [1, '--vproto --vaddr --vport --vdir --vmethod --vportctl'])],
  ['limit', options([1, '--limit --limit-burst'])],
  ['mark', options([1, '--mark'])],
  ['multiport', options([1, '--sports --dports --ports --source-ports --destination-ports'])],
  ['nfacct', options([1, '--nfacct-name'])],
  ['physdev', options([0, '--physdev-is-in --physdev-is-out --physdev-is-bridged'], [1, '--physdev-in --physdev-out'])],
  [
    'recent',
    options(
      [0, '--set --rcheck --update --remove --reap --rttl --rsource --rdest'],
      [1, '--name --mask --seconds --hitcount'],
    ),
  ],
  ['sctp', options([1, PORTS], [2, '--chunk-types'])],
  [
    'set',
    options(
      [0, '--return-nomatch --update-counters --update-subcounters'],
      [1, '--packets-eq --packets-lt --packets-gt --bytes-eq --bytes-lt --bytes-gt'],
      [2, '--match-set'],
    ),
  ],
  ['state', options([1, '--state'])],
  ['statistic', options([1, '--mode --probability --every --packet'])],
  ['tcp', options([0, '--syn'], [1, `${PORTS} --tcp-option`], [2, '--tcp-flags'])],
  ['udp', options([1, PORTS])],
])

/** Targets by name (`-j NAME`); any other name is a chain, or a target that is not modelled. */
export const TARGET_OPTIONS: ReadonlyMap<string, Options> = new Map([
  ['ACCEPT', options()],
  ['DROP', options()],
  ['RETURN', options()],
  ['QUEUE', options()],
  ['NOTRACK', options()],
  ['TRACE', options()],
  ['CONNMARK', options([0, '--save-mark --restore-mark'], [1, markOptions('--nfmask --ctmask')])],
  ['CT', options([0, '--notrack'], [1, '--helper --ctevents --expevents --zone --zone-orig --zone-reply --timeout'])],
  ['DNAT', options([0, '--random --persistent'], [1, '--to-destination'])],
  [
    'LOG',
    options(
      [0, '--log-tcp-sequence --log-tcp-options --log-ip-options --log-uid --log-macdecode'],
      [1, '--log-level --log-prefix'],
    ),
  ],
  ['MARK', options([1, markOptions('')])],
  ['MASQUERADE', options([0, '--random --random-fully'], [1, '--to-ports'])],
  ['NFLOG', options([1, '--nflog-group --nflog-prefix --nflog-range --nflog-size --nflog-threshold'])],
  ['NFQUEUE', options([0, '--queue-bypass --queue-cpu-fanout'], [1, '--queue-num --queue-balance'])],
  ['REDIRECT', options([0, '--random'], [1, '--to-ports'])],
  ['REJECT', options([1, '--reject-with'])],
  ['SNAT', options([0, '--random --random-fully --persistent'], [1, '--to-source'])],
  ['TCPMSS', options([0, '--clamp-mss-to-pmtu'], [1, '--set-mss'])],
])

function markOptions(more: string): string {
  return `--set-mark --set-xmark --and-mark --or-mark --xor-mark ${more}`.trimEnd()
}

/** Options whose value iptables-save quotes unless it contains only letters, digits, `-` and `_`. */
export const QUOTED_OPTIONS = new Set(['--comment', '--log-prefix', '--nflog-prefix', '--string', '--nfacct-name'])

/** Other spellings that the command line accepts and iptables-save never prints. */
export const ALIASES: ReadonlyMap<string, string> = new Map([
  ['--source', '-s'],
  ['--src', '-s'],
  ['--destination', '-d'],
  ['--dst', '-d'],
  ['--in-interface', '-i'],
  ['--out-interface', '-o'],
  ['--protocol', '-p'],
  ['--proto', '-p'],
  ['--fragment', '-f'],
  ['--match', '-m'],
  ['--jump', '-j'],
  ['--goto', '-g'],
  ['--source-port', '--sport'],
  ['--destination-port', '--dport'],
  ['--source-ports', '--sports'],
  ['--destination-ports', '--dports'],
])
