/** Pod addresses of one node, given out in turn like CNI's host-local plugin does: an address comes back as late as possible. */
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
