import type { Link } from '../../ip-addr.ts'
import { DUMMY_LINK } from '../ipvs/dummy-link.ts'

/** Link-local addresses of IPv6 are the kernel's own. */
const addresses = (link: Link | undefined): Set<string> =>
  new Set(
    (link?.addresses ?? [])
      .filter(({ address }) => !/^fe[89ab]/i.test(address))
      .map(({ address, prefixLength }) => `${address}/${prefixLength}`),
  )

/** Input of `ip -batch -` that takes kube-ipvs0 from `present` to `target`; other links are not touched. */
export function ipBatchInput(target: readonly Link[], present: readonly Link[]): string {
  const wanted = target.find((link) => link.name === DUMMY_LINK)
  const found = present.find((link) => link.name === DUMMY_LINK)
  if (!wanted) return found ? `link del ${DUMMY_LINK}\n` : ''
  const lines = found ? [] : [`link add ${DUMMY_LINK} type dummy`]
  const [expected, bound] = [addresses(wanted), addresses(found)]
  for (const address of expected) if (!bound.has(address)) lines.push(`addr add ${address} dev ${DUMMY_LINK}`)
  for (const address of bound) if (!expected.has(address)) lines.push(`addr del ${address} dev ${DUMMY_LINK}`)
  return lines.map((line) => `${line}\n`).join('')
}
