import type { Pod } from '../resources.ts'

interface HostPort {
  protocol: string
  address: string
  port: number
}

const anyAddress = '0.0.0.0'

function hostPorts({ spec }: Pod): HostPort[] {
  // Sidecars (init containers that keep running) hold their ports too.
  const sidecars = (spec.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === 'Always')
  return [...spec.containers, ...sidecars].flatMap(({ ports = [] }) =>
    ports.flatMap(({ hostPort, hostIP, protocol }) =>
      hostPort ? [{ port: hostPort, address: hostIP || anyAddress, protocol: protocol ?? 'TCP' }] : [],
    ),
  )
}

/** Whether none of the Pod's host ports is taken by `others` on the same node; 0.0.0.0 takes a port on every address. */
export function hostPortsAreFree(pod: Pod, others: readonly Pod[]): boolean {
  const taken = others.flatMap(hostPorts)
  return hostPorts(pod).every((wanted) =>
    taken.every(
      (held) =>
        held.port !== wanted.port ||
        held.protocol !== wanted.protocol ||
        (held.address !== wanted.address && held.address !== anyAddress && wanted.address !== anyAddress),
    ),
  )
}
