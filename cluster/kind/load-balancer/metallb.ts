import type { AddressPool } from '../../../host/address-pool.ts'
import { $ } from '../../../host/command.ts'
import type { Progress } from '../../../host/progress.ts'
import { kubectlPath } from '../../kubectl.ts'

/** The release whose manifest is applied; `METALLB_MANIFEST` names another address, or a file. */
const release = 'v0.15.3'
const manifest = () =>
  process.env.METALLB_MANIFEST ||
  `https://raw.githubusercontent.com/metallb/metallb/${release}/config/manifests/metallb-native.yaml`

/** What MetalLB is told: this pool, announced on the nodes' own network. */
export function metalLbConfiguration({ first, last }: AddressPool): object[] {
  const metadata = { name: 'kind', namespace: 'metallb-system' }
  const apiVersion = 'metallb.io/v1beta1'
  return [
    { apiVersion, kind: 'IPAddressPool', metadata, spec: { addresses: [`${first}-${last}`] } },
    { apiVersion, kind: 'L2Advertisement', metadata, spec: { ipAddressPools: ['kind'] } },
  ]
}

/**
 * Installs MetalLB with a pool of addresses. In IPVS mode it needs strictARP: every node owns every address then.
 * @throws Error in one sentence when its manifest or its images can't be had
 */
export async function installMetalLb(kubeconfig: string, pool: AddressPool, progress: Progress): Promise<void> {
  const { path } = await kubectlPath(progress)
  const kubectl = (words: string[], input = '') =>
    $({ quiet: true, nothrow: true, input })`${path} --kubeconfig ${kubeconfig} ${words}`
  const step = async (what: string, words: string[], input?: string) => {
    progress.start(what)
    const { exitCode, stderr } = await kubectl(words, input)
    progress.end(exitCode === 0)
    if (exitCode === 0) return
    const reason = stderr.trim().split('\n').at(-1)
    throw new Error(
      `MetalLB could not be installed (${reason}). METALLB_MANIFEST= names another manifest; without LB=metallb the load balancer needs no download.`,
    )
  }
  await step(`Applying MetalLB ${release}`, ['apply', '-f', manifest()])
  const rollout = (name: string) => ['-n', 'metallb-system', 'rollout', 'status', name, '--timeout=180s']
  await step('Waiting for its controller', rollout('deployment/controller'))
  await step('Waiting for its speakers', rollout('daemonset/speaker'))
  const objects = { apiVersion: 'v1', kind: 'List', items: metalLbConfiguration(pool) }
  await step(`Giving it ${pool.first}-${pool.last}`, ['apply', '-f', '-'], JSON.stringify(objects))
}
