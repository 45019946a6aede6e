import { existsSync, statfsSync } from 'node:fs'
import { freemem } from 'node:os'
import { join } from 'node:path'
import { chalk, which } from 'zx'
import { requireSupport } from '../cluster/embedded/machine/packages.ts'
import { EmbeddedCluster } from '../cluster/embedded.ts'
import { containerEngine, hasImage, registryHas } from '../cluster/kind/engine.ts'
import { nodeImage } from '../cluster/kind/node-image.ts'
import { cacheFolder, clusterName, projectRoot } from '../cluster/layout.ts'
import { ExitCode, main } from './main.ts'

/** One thing looked at. `mend` is the command or the step that repairs it; without one it is only information. */
interface Finding {
  what: string
  ok: boolean
  detail: string
  mend?: string
}

const gigabyte = 1024 ** 3
const inGigabytes = (bytes: number) => `${(bytes / gigabyte).toFixed(1)} GB`
const needed = { memory: 1.5 * gigabyte, disk: 1 * gigabyte }

function room(): Finding[] {
  const { bavail, bsize } = statfsSync(projectRoot)
  const disk = bavail * bsize
  const memory = freemem()
  return [
    {
      what: 'memory',
      ok: memory > needed.memory,
      detail: `${inGigabytes(memory)} free`,
      mend: 'close something: a cluster takes 1.5 GB',
    },
    {
      what: 'disk',
      ok: disk > needed.disk,
      detail: `${inGigabytes(disk)} free`,
      mend: 'make room: the cache takes 1 GB',
    },
  ]
}

async function embedded(): Promise<Finding> {
  const cached = existsSync(join(cacheFolder, 'packages', 'kernel'))
  try {
    await requireSupport()
  } catch (error) {
    return { what: 'embedded cluster', ok: false, detail: error instanceof Error ? error.message : String(error) }
  }
  return {
    what: 'embedded cluster',
    ok: true,
    detail: cached ? 'its kernel is in the cache' : 'its kernel will be fetched once',
  }
}

async function kind(): Promise<Finding> {
  const engine = await containerEngine()
  const mend = 'start Docker or Podman, or use the embedded cluster'
  if (!engine) return { what: 'kind cluster', ok: false, detail: 'no Docker or Podman engine answers', mend }
  const reference = await nodeImage(engine)
  const image = reference.split('@')[0] ?? ''
  if ((await hasImage(engine, reference)) || (await registryHas(engine, reference)))
    return { what: 'kind cluster', ok: true, detail: `${engine} has ${image}` }
  return {
    what: 'kind cluster',
    ok: false,
    detail: `${engine} can't fetch ${image}`,
    mend: 'check the network, or set IMAGE= to one that is here',
  }
}

async function kubectl(): Promise<Finding> {
  const path = await which('kubectl', { nothrow: true })
  return { what: 'kubectl', ok: true, detail: path ?? 'will be fetched once' }
}

/** Modules of IPVS in the kernel that the nodes really run on, tried by loading them. Empty while no cluster is up. */
async function ipvs(): Promise<Finding[]> {
  const cluster = new EmbeddedCluster(clusterName())
  if (!(await cluster.running())) return []
  const [node = ''] = await cluster.nodes()
  const load = 'modprobe -a ip_vs ip_vs_rr ip_vs_wrr ip_vs_sh ip_set xt_set && test -e /proc/net/ip_vs && uname -r'
  const { exitCode, stdout, stderr } = await cluster.exec(node, ['sh', '-c', load])
  const detail = exitCode === 0 ? `kernel ${stdout.trim()} has ip_vs and ip_set` : stderr.trim()
  return [{ what: 'IPVS', ok: exitCode === 0, detail, mend: 'use CLUSTER=embedded, whose kernel has it' }]
}

function line({ what, ok, detail, mend }: Finding): string {
  const mark = ok ? chalk.green('✓') : chalk.yellow('!')
  return ` ${mark} ${what.padEnd(18)} ${detail}${ok || !mend ? '' : `\n   ${' '.repeat(18)} → ${mend}`}`
}

await main(async () => {
  const clusters = [await embedded(), await kind()]
  const findings = [
    { what: 'Node.js', ok: true, detail: process.version },
    ...room(),
    await kubectl(),
    ...clusters,
    ...(await ipvs()),
  ]
  for (const finding of findings) console.log(line(finding))
  const usable = clusters.filter(({ ok }) => ok).map(({ what }) => what)
  console.log(
    usable.length > 0
      ? `\nEvery lab can run here, on the ${usable.join(' or the ')}: make lab-2`
      : '\nNo cluster can run here yet: mend one of the two lines above.',
  )
  return usable.length > 0 ? ExitCode.passed : ExitCode.trouble
})
