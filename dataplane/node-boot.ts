/** The content of a node's `boot` file in a capture, which identifies the kernel's boot and the time. */
export type NodeBoot = NonNullable<ReturnType<typeof parseNodeBoot>>

const BOOT_ID = /^boot_id ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/m
const UPTIME = /^uptime (\d{1,12}(?:\.\d{1,3})?)$/m
const BOOTED_AT = /^btime (\d{1,12})$/m
const CLASS_MARK = /^class ([0-9a-f]{64})$/m

/** Reads a `boot` file; undefined when it is missing or lacks the boot id or the uptime. */
export function parseNodeBoot(text = '') {
  const [bootId, uptime, bootedAt, classMark] = [BOOT_ID, UPTIME, BOOTED_AT, CLASS_MARK].map(
    (line) => line.exec(text)?.[1],
  )
  if (bootId === undefined || uptime === undefined) return undefined
  return {
    /** /proc/sys/kernel/random/boot_id: a random value of each boot. */
    bootId,
    /** /proc/uptime. */
    uptimeSeconds: Number(uptime),
    /** `btime` of /proc/stat: when the kernel started, in seconds since the epoch, by the node's own clock. */
    ...(bootedAt && { bootedAtSeconds: Number(bootedAt) }),
    /** The mark that `make lab-N` wrote on the node, derived from the class word and the boot ID. */
    ...(classMark && { classMark }),
  }
}
