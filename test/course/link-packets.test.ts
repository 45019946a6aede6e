import { expect, test } from 'vitest'
import { type LinkPacket, packetOnItsWay, parseLinkPackets } from '../../course/link-packets.ts'

/** A frame with the first packet of a connection: Ethernet, IPv4 without options, TCP with SYN. */
function frame(source: string, destination: string, port: number, sequence: number): string {
  const bytes = Buffer.alloc(54)
  bytes.writeUInt16BE(0x0800, 12)
  bytes.writeUInt8(0x45, 14)
  bytes.writeUInt8(6, 23)
  for (const [index, part] of source.split('.').entries())
    bytes.writeUInt8(Number(part), 26 + index)
  for (const [index, part] of destination.split('.').entries())
    bytes.writeUInt8(Number(part), 30 + index)
  bytes.writeUInt16BE(40_000, 34)
  bytes.writeUInt16BE(port, 36)
  bytes.writeUInt32BE(sequence, 38)
  bytes.writeUInt8(0x50, 46)
  bytes.writeUInt8(2, 47)
  return bytes.toString('hex')
}
const POD = '10.244.1.5'
const line = (device: string, direction: string, destination: string, port = 80, sequence = 7) =>
  `${device} ${direction} ${frame(POD, destination, port, sequence)}`

test('the header of each frame is read, and lines of another form are left out', () => {
  const text = ['no packet socket: denied', line('veth1', 'in', '10.96.0.9'), 'veth1 in 4500'].join(
    '\n',
  )
  expect(parseLinkPackets('worker', text)).toEqual([
    {
      node: 'worker',
      device: 'veth1',
      direction: 'in',
      source: POD,
      sourcePort: 40_000,
      destination: '10.96.0.9',
      port: 80,
      sequence: 7,
      bytes: frame(POD, '10.96.0.9', 80, 7),
    },
  ])
})

test('one packet is followed by its sequence number over every link, in the order of its way', () => {
  const packets: LinkPacket[] = [
    ...parseLinkPackets(
      'worker2',
      [line('veth9', 'out', '10.244.2.3'), line('eth0', 'in', '10.244.2.3')].join('\n'),
    ),
    ...parseLinkPackets(
      'worker',
      [
        line('eth0', 'out', '10.244.2.3'),
        line('veth1', 'in', '10.96.0.9'),
        // Retransmitted, another connection that was lost, and one of another program with more
        // links.
        line('veth1', 'in', '10.96.0.9'),
        line('veth1', 'in', '10.96.0.9', 80, 8),
        ...['a', 'b', 'c', 'd', 'e'].map((device) => line(device, 'in', '10.96.0.1', 443, 9)),
      ].join('\n'),
    ),
  ]
  const links = packetOnItsWay(packets, ['worker', 'worker2'], ['10.96.0.9:80', '10.244.2.3:80'])
  expect(
    links.map(({ node, device, direction, destination }) => [node, device, direction, destination]),
  ).toEqual([
    ['worker', 'veth1', 'in', '10.96.0.9'],
    ['worker', 'eth0', 'out', '10.244.2.3'],
    ['worker2', 'eth0', 'in', '10.244.2.3'],
    ['worker2', 'veth9', 'out', '10.244.2.3'],
  ])
  expect(packetOnItsWay(packets, ['worker'], ['10.96.0.77:80'])).toEqual([])
})
