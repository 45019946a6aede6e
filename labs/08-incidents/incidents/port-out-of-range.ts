import { parse, stringify } from 'yaml'
import { ApiException } from '../../../cluster/kubernetes.ts'
import type { Incident } from '../../../course/incident/incident.ts'
import type { IncidentContext } from '../../../course/incident/incident-context.ts'
import type { LabBench } from '../../../course/lab-bench.ts'

const RELEASE = { namespace: 'default', name: 'shop-release' }
const NAME = 'shop-web'
const FILE = 'service.yaml'
const AGREED = 20080
const IN_RANGE = 30081

const manifest = (nodePort: number) =>
  stringify({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: NAME, labels: { lab: 'incidents' } },
    spec: {
      type: 'NodePort',
      selector: { app: 'shop' },
      ports: [{ port: 80, targetPort: 'web', nodePort }],
    },
  })

/** The port in the release. */
function agreedPort({ snapshot }: IncidentContext): number {
  const text = snapshot.find('ConfigMap', RELEASE.namespace, RELEASE.name)?.data?.[FILE] ?? ''
  try {
    const read: { spec?: { ports?: { nodePort?: number }[] } } | null = parse(text)
    return read?.spec?.ports?.[0]?.nodePort ?? 0
  } catch {
    return 0
  }
}

/** Applies the release like the nightly job, which ignores errors of the API. */
async function applyRelease({ client: { core } }: LabBench, text: string): Promise<void> {
  const body = parse(text)
  try {
    await core.createNamespacedService({ namespace: RELEASE.namespace, body })
  } catch (error) {
    if (!(error instanceof ApiException)) throw error
  }
}

export const portOutOfRange: Incident = {
  id: 'port-out-of-range',
  cause: 'the API rejects a Service because its node port is outside of the range for node ports',
  mode: 'iptables',
  sign: 'If the API rejected the Service, `kubectl get services` would not list it.',
  report: () =>
    `The web site of the shop should be on port ${AGREED} of every node since last night's release, and is refused on all of them. The job applies the manifest in the ConfigMap shop-release and ends; its log is gone.`,
  hints: [
    'Is there a Service with that port? If not, try to create the one of the release.',
    'Apply the release yourself: `kubectl get configmap shop-release -o jsonpath={.data.service\\.yaml} | kubectl apply -f -`, and read the error message.',
    'Node ports have a range, which is a flag of the API server. Change the release to a port within the range, and apply it; the site is then on that port.',
  ],
  async break(bench) {
    const data = { [FILE]: manifest(AGREED) }
    await bench.create('ConfigMap', RELEASE.name, { lab: 'incidents' }, { data })
    await applyRelease(bench, data[FILE] ?? '')
  },
  async symptom(context) {
    const port = agreedPort(context)
    if (port > 0) return context.nodePortEverywhere(port)
    return {
      inspect: 'kubectl get configmap shop-release -o yaml',
      expected: 'a release with a node port',
      actual: 'none',
    }
  },
  causeLeft(context) {
    const ports = (context.service(NAME)?.ports ?? []).map(({ nodePort }) => nodePort)
    if (!ports.includes(agreedPort(context)))
      return `the release asks for port ${agreedPort(context)}, and the Service ${NAME} has ${ports.join() || 'none'}`
    return undefined
  },
  fix: () => ({
    commands: [
      `kubectl patch configmap shop-release --type merge -p '{"data":{"service.yaml":"…nodePort: ${IN_RANGE}…"}}'`,
      "kubectl get configmap shop-release -o jsonpath='{.data.service\\.yaml}' | kubectl apply -f -",
    ],
    async play(bench) {
      const data = { [FILE]: manifest(IN_RANGE) }
      await bench.patch('ConfigMap', RELEASE.name, { data })
      await applyRelease(bench, data[FILE] ?? '')
    },
  }),
  revert: (bench) =>
    Promise.all([bench.delete('Service', NAME), bench.delete('ConfigMap', RELEASE.name)]),
  debrief: `Node ports come from one range, 30000-32767 unless --service-node-port-range changes it, so that they can't collide with the
listeners of the nodes or with the source ports of clients. The API rejects all others, and the whole object with them: there
is no Service, and so no rule. A rule by hand would have hidden the port in a place where it is not expected.`,
}
