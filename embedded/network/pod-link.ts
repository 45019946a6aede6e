import { shellWord } from '../../host/shell-word.ts'
import type { Machine } from '../machine/machine.ts'
import { interfaceName, type NodePlan, podGateway } from './node-setup.ts'

/** Changes in the guest's own mount and network namespaces. The fields are applied in this order. */
export interface GuestWork {
  /** Folders to create. */
  folders?: readonly string[]
  /** Paths to unmount recursively. */
  unmount?: readonly string[]
  /** Folders to remove. */
  remove?: readonly string[]
  /** Lines of an fstab. */
  mounts?: readonly string[]
  /** Lines for `ip -batch` in the guest's own namespace. */
  links?: readonly string[]
  /** Lines for `ip -batch` in a named network namespace. */
  inside?: readonly { netns: string; lines: readonly string[] }[]
  /** Network namespaces to delete. */
  namespaces?: readonly string[]
}

/** One shell script for several pieces of work except their folders; it tries all parts and exits with 1 if one failed. */
export function guestScript(works: readonly GuestWork[]): string {
  const all = <T>(part: (work: GuestWork) => readonly T[] | undefined): T[] => works.flatMap((work) => part(work) ?? [])
  const words = (paths: readonly string[]) => paths.map(shellWord).join(' ')
  const batch = (command: string, lines: readonly string[]) =>
    lines.length === 0 ? '' : `${command} -force -batch - <<'END' || failed=1\n${lines.join('\n')}\nEND\n`
  const inside = new Map<string, string[]>()
  for (const { netns, lines } of all((work) => work.inside)) inside.set(netns, [...(inside.get(netns) ?? []), ...lines])
  const unmount = all((work) => work.unmount)
  const remove = all((work) => work.remove)
  const mounts = all((work) => work.mounts)
  const links = all((work) => work.links)
  const namespaces = all((work) => work.namespaces)
  let script = ''
  if (unmount.length) script += `umount -l ${words(unmount)} || failed=1\n`
  // If a mount remains, its content must not be removed.
  if (remove.length) script += `rm -rf --one-file-system ${words(remove)} || failed=1\n`
  if (mounts.length)
    script += `printf '%s\\n' ${words(mounts)} >/run/work.fstab; mount -a -T /run/work.fstab || failed=1\n`
  script += batch('ip', links)
  for (const [netns, lines] of inside) script += batch(`ip -n ${shellWord(netns)}`, lines)
  const deletions = namespaces.map((name) => `netns delete ${name}`)
  script += batch('ip', deletions)
  return script === '' ? '' : `failed=0\n${script}exit $failed`
}

/**
 * Does work in the guest, one script at a time: requests that arrive while a script runs share the next one. Starting a
 * process takes tens of milliseconds there; with shared scripts ten Pods take little longer than one.
 */
export class GuestWorker {
  private readonly machine: Machine
  private waiting: { work: GuestWork; done(): void; failed(error: unknown): void }[] = []
  private busy = false

  constructor(machine: Machine) {
    this.machine = machine
  }

  /** Rejects with the error output of the failed commands, which may belong to other work in the same script. */
  perform(work: GuestWork): Promise<void> {
    return new Promise((done, failed) => {
      this.waiting.push({ work, done, failed })
      if (this.busy) return
      this.busy = true
      // Requests in the same turn of the event loop share a script.
      setImmediate(() => void this.drain())
    })
  }

  private async drain(): Promise<void> {
    while (this.waiting.length > 0) {
      const batch = this.waiting.splice(0)
      try {
        await this.run(batch.map(({ work }) => work))
        for (const { done } of batch) done()
      } catch (error) {
        for (const { failed } of batch) failed(error)
      }
    }
    this.busy = false
  }

  private async run(works: readonly GuestWork[]): Promise<void> {
    // The agent creates folders itself, without starting a process.
    const folders = works.flatMap((work) => work.folders ?? [])
    await this.machine.write(folders.map((folder) => ({ path: `${folder}/`, content: '' })))
    const script = guestScript(works)
    if (script === '') return
    const { exitCode, stderr } = await this.machine.script(script)
    if (exitCode !== 0) throw new Error(stderr.trim().split('\n').slice(0, 5).join('; '))
  }
}

/** A Pod's network namespace and its link to the node. */
export interface PodLink {
  /** Name of the Pod's network namespace, as a CNI runtime would name it. */
  netns: string
  /** The node's end of the veth pair. */
  hostInterface: string
  address: string
  node: NodePlan
}

/** The link of a Pod, by its uid. */
export function podLink(uid: string, address: string, node: NodePlan): PodLink {
  return { netns: `cni-${uid}`, hostInterface: interfaceName('veth', uid), address, node }
}

/**
 * A namespace joined to the node as kind's CNI configuration does it (the ptp plugin): no bridge, one host route per Pod,
 * and in the Pod even addresses of the same range are routed through the node, so that every packet passes its Netfilter
 * hooks.
 */
export function attachWork({ netns, hostInterface, address, node }: PodLink): GuestWork {
  const gateway = podGateway(node.podCIDR)
  return {
    links: [
      `netns add ${netns}`,
      `link add ${hostInterface} netns ${node.name} type veth peer name eth0 netns ${netns}`,
    ],
    inside: [
      {
        netns: node.name,
        lines: [
          `address add ${gateway}/32 dev ${hostInterface}`,
          `link set ${hostInterface} up`,
          `route add ${address}/32 dev ${hostInterface} scope host`,
        ],
      },
      {
        netns,
        lines: [
          'link set lo up',
          `address add ${address}/24 broadcast + dev eth0 noprefixroute`,
          'link set eth0 up',
          `route add ${gateway}/32 dev eth0 scope link src ${address}`,
          `route add ${node.podCIDR} via ${gateway} dev eth0 src ${address}`,
          `route add default via ${gateway} dev eth0`,
        ],
      },
    ],
  }
}

/** Removes the link immediately; the namespace ends with its last process. */
export function detachWork({ netns, hostInterface, node }: PodLink): GuestWork {
  return { inside: [{ netns: node.name, lines: [`link delete ${hostInterface}`] }], namespaces: [netns] }
}

/**
 * Pod addresses of one node, allocated in turn like in CNI's host-local plugin: a released address is reused as late as
 * possible.
 */
export class AddressPool {
  private readonly prefix: string
  private readonly used = new Set<number>()
  private last = 1

  /** `podCIDR` is a /24. */
  constructor(podCIDR: string) {
    const base = podCIDR.split('/')[0] ?? ''
    this.prefix = base.slice(0, base.lastIndexOf('.') + 1)
  }

  /** Throws when all 253 addresses are taken. */
  take(): string {
    for (let step = 0; step < 253; step++) {
      this.last = this.last >= 254 ? 2 : this.last + 1
      if (this.used.has(this.last)) continue
      this.used.add(this.last)
      return this.prefix + this.last
    }
    throw new Error(`no IP addresses available in range set: ${this.prefix}2-${this.prefix}254`)
  }

  release(address: string): void {
    if (address.startsWith(this.prefix)) this.used.delete(Number(address.slice(this.prefix.length)))
  }
}
