import { describe, expect, test } from 'vitest'
import { external, node, pod, trace } from './made-node.ts'

describe('a rule of a trace', () => {
  const matches: [string, string, string, boolean][] = [
    ['! -s 10.244.0.0/16', pod, '8.8.8.8:80', false],
    ['! -s 10.244.0.0/16', external, '8.8.8.8:80', true],
    ['-i cni+', pod, '8.8.8.8:80', true],
    ['-i eth0', external, '8.8.8.8:80', true],
    ['! -i eth0', external, '8.8.8.8:80', false],
    ['-o eth0', pod, '8.8.8.8:80', true],
    ['-o cni0', external, '10.244.1.7:80', true],
    ['-p 17', pod, '8.8.8.8:80/udp', true],
    ['-p sctp -m sctp --dport 70:90', pod, '8.8.8.8:80/sctp', true],
    ['-p tcp -m tcp ! --dport 80', pod, '8.8.8.8:80', false],
    ['-p tcp -m multiport --dports 22,79:81', pod, '8.8.8.8:80', true],
    ['-p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN', pod, '8.8.8.8:80', true],
    ['-p tcp -m tcp --tcp-flags SYN,ACK ACK', pod, '8.8.8.8:80', false],
    ['-m conntrack --ctstate RELATED,ESTABLISHED', pod, '8.8.8.8:80', false],
    ['-m conntrack --ctstate NEW', pod, '8.8.8.8:80', true],
    ['-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT', pod, '8.8.8.8:80', true],
    ['-m conntrack --ctorigdst 8.8.8.8/32 --ctorigdstport 80', pod, '8.8.8.8:80', true],
    ['-m addrtype --dst-type LOCAL', pod, '8.8.8.8:80', false],
    ['-m addrtype ! --src-type LOCAL', pod, '8.8.8.8:80', true],
    ['-m physdev ! --physdev-is-in', pod, '8.8.8.8:80', true],
    ['-m physdev --physdev-is-in', pod, '8.8.8.8:80', false],
    ['-m mark ! --mark 0x4000/0x4000', pod, '8.8.8.8:80', true],
    [
      '-m recent --rcheck --seconds 600 --reap --name NEW --mask 255.255.255.255 --rsource',
      pod,
      '8.8.8.8:80',
      false,
    ],
    ['-m ipvs --vaddr 10.96.0.1/32', pod, '8.8.8.8:80', false],
    ['-m iprange --dst-range 8.8.8.1-8.8.8.9', pod, '8.8.8.8:80', true],
    ['-m nfacct --nfacct-name  counted', pod, '8.8.8.8:80', true],
    ['-m strange --thing', pod, '8.8.8.8:80', false],
    ['-m set --match-set PORTS dst', pod, '8.8.8.8:80', true],
    ['-m set --match-set PORTS dst', pod, '8.8.8.8:80/sctp', false],
    ['-m set ! --match-set PORTS dst', pod, '8.8.8.8:81', true],
    ['-m set --match-set IPPORT dst,dst', pod, '8.8.8.8:80', true],
    ['-m set --match-set IPPORT dst,dst', pod, '8.8.8.8:80/udp', false],
    ['-m set --match-set IPPORTNET dst,dst,src', pod, '8.8.8.8:80', true],
    ['-m set --match-set IPPORTNET dst,dst,src', external, '8.8.8.8:80', false],
    ['-m set --match-set NETS src', pod, '8.8.8.8:80', true],
    ['-m set --match-set NETS src', 'pod:10.244.1.200', '8.8.8.8:80', false],
    ['-m set --match-set SIX dst', pod, '8.8.8.8:80', false],
    ['-m set --match-set ALL dst', pod, '8.8.8.8:80', true],
    ['-m set --match-set ABSENT dst', pod, '8.8.8.8:80', false],
  ]
  const sets = [
    'create PORTS bitmap:port range 0-65535',
    'add PORTS 80',
    'create IPPORT hash:ip,port family inet',
    'add IPPORT 8.8.8.8,tcp:80',
    'create IPPORTNET hash:ip,port,net family inet',
    'add IPPORTNET 8.8.8.8,tcp:80,10.244.0.0/16',
    'create NETS hash:net family inet',
    'add NETS 10.244.0.0/16',
    'add NETS 10.244.1.192/26 nomatch',
    'create SIX hash:ip family inet6',
    'create ALL list:set size 8',
    'add ALL SIX',
    'add ALL PORTS',
  ].join('\n')

  test.each(matches)('%s from %s to %s: %s', (match, from, to, holds) => {
    const state = node({ filter: [`-A FORWARD ${match} -j DROP`] }, '', sets)
    expect(trace(state, from, to).verdict).toBe(holds ? 'drop' : 'accept')
  })

  test.each([
    ['--set-xmark 0x4000/0x4000', 0x4001],
    ['--set-xmark 0x4000/0x0', 0x4001],
    ['--set-mark 0x2/0xf', 0x2],
    ['--and-mark 0xfffffffe', 0x0],
    ['--or-mark 0x8', 0x9],
    ['--xor-mark 0x1', 0x0],
  ])('changes a mark by %s', (option, mark) => {
    const mangle = [
      '-A PREROUTING -j MARK --set-xmark 0x1/0xffffffff',
      `-A PREROUTING -j MARK ${option}`,
    ]
    const filter = [`-A FORWARD -m mark --mark 0x${mark.toString(16)} -j DROP`]
    expect(trace(node({ mangle, filter }), pod, '8.8.8.8:80').verdict).toBe('drop')
  })
})
