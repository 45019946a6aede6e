// A real packet on each link that it passed: its bytes, with the fields that a translation changes.

import type { LinkPacket } from '../../course/link-packets.ts'

/**
 * A part of a frame with its name; the offsets are those of Ethernet, IPv4 without options, and TCP
 * (RFC 894, 791, 9293).
 */
interface Field {
  name: string
  from: number
  to: number
}

/** The fields of the frame. `ip` is the length of its IPv4 header. */
function fieldsOf(bytes: string): Field[] {
  const ip = (Number.parseInt(bytes.slice(28, 30), 16) & 15) * 4
  const tcp = 14 + ip
  return [
    { name: 'Ethernet', from: 0, to: 14 },
    { name: 'IPv4', from: 14, to: 26 },
    { name: 'source', from: 26, to: 30 },
    { name: 'destination', from: 30, to: 34 },
    { name: 'options', from: 34, to: tcp },
    { name: 'source port', from: tcp, to: tcp + 2 },
    { name: 'destination port', from: tcp + 2, to: tcp + 4 },
    { name: 'TCP', from: tcp + 4, to: bytes.length / 2 },
  ].filter(({ from, to }) => to > from)
}

const textOf = (bytes: string, { from, to }: Field): string => bytes.slice(from * 2, to * 2)

/** Fields whose change is a translation; checksums and the time to live are in the others. */
const TRANSLATED = new Set(['source', 'destination', 'source port', 'destination port'])

/** The list of links. `lit` is the place that is shown, as `NODE INTERFACE`. */
export function LinkPackets({ links, lit }: { links: readonly LinkPacket[]; lit?: string }) {
  if (links.length === 0) return null
  return (
    <section class="links" aria-label="The packet on each link">
      <h4>
        One of them on each link, as the nodes passed it{' '}
        <span class="soft">(TCP sequence number {links[0]?.sequence})</span>
      </h4>
      <ol>
        {links.map((link, index) => (
          <LinkRow
            key={`${link.node} ${link.device} ${link.direction}`}
            link={link}
            before={links[index - 1]}
            isLit={lit === `${link.node} ${link.device}`}
          />
        ))}
      </ol>
    </section>
  )
}

function LinkRow({
  link,
  before,
  isLit,
}: {
  link: LinkPacket
  before: LinkPacket | undefined
  isLit: boolean
}) {
  const { node, device, direction, source, sourcePort, destination, port, bytes } = link
  const fields = fieldsOf(bytes)
  const earlier = before && new Map(fieldsOf(before.bytes).map((one) => [one.name, one]))
  const isChanged = (field: Field) => {
    const same = earlier?.get(field.name)
    return (
      before !== undefined &&
      same !== undefined &&
      TRANSLATED.has(field.name) &&
      textOf(before.bytes, same) !== textOf(bytes, field)
    )
  }
  const changed = fields.filter(isChanged).map(({ name }) => name)
  return (
    <li class={isLit ? 'at' : ''}>
      <p>
        <strong>{node}</strong>{' '}
        <span class="soft">
          {direction === 'in' ? 'in by' : 'out by'} {device}
        </span>{' '}
        <code>
          {source}:{sourcePort} → {destination}:{port}
        </code>
        {changed.length > 0 && <small class="change"> {changed.join(', ')} changed</small>}
      </p>
      <pre>
        {fields.map((field) => (
          <span
            key={field.name}
            class={`${TRANSLATED.has(field.name) ? 'field' : 'soft'} ${isChanged(field) ? 'change' : ''}`}
            title={field.name}
          >
            {textOf(bytes, field).replace(/(..)(?=.)/g, '$1 ')}{' '}
          </span>
        ))}
      </pre>
    </li>
  )
}
