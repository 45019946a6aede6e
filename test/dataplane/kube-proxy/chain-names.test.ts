import { describe, expect, test } from 'vitest'
import { endpointChain, isServiceChain, serviceHash } from '../../../dataplane/kube-proxy/ruleset-builder.ts'

describe('chain names', () => {
  // Names seen on real nodes.
  test.each([
    ['default/kubernetes:https', 'tcp', 'NPX46M4PTMTKRN6Y'],
    ['kube-system/kube-dns:dns', 'udp', 'TCOU7JCQXEZGVUNU'],
    ['kube-system/kube-dns:dns-tcp', 'tcp', 'ERIFXISQEP7F7OF4'],
    ['kube-system/kube-dns:metrics', 'tcp', 'JD5MR3NA4I4DYORP'],
    ['default/nginx', 'tcp', '2CMXP7HKUVJN7L6M'],
  ])('%s %s is %s', (name, protocol, hash) => expect(serviceHash(name, protocol)).toBe(hash))

  test.each([
    ['10.244.1.5:80', 'KUBE-SEP-IZW656N5ZXYN5BEC'],
    ['10.244.0.20:80', 'KUBE-SEP-BRZDTZFF2SFWJV4H'],
  ])('the endpoint %s of default/nginx has the chain %s', (endpoint, chain) =>
    expect(endpointChain('default/nginx', 'tcp', endpoint)).toBe(chain),
  )

  test('only chains of single Services and endpoints are Service chains', () => {
    expect(isServiceChain('KUBE-XLB-LOLE4ISW44XBNF3G')).toBe(true)
    expect(isServiceChain('KUBE-SERVICES')).toBe(false)
    expect(isServiceChain('KUBE-FIREWALL')).toBe(false)
  })
})
