import type { Incident } from '../../../course/incident/incident.ts'

const NEXT = 'shop-next'
const MANIFEST = `labs/08-incidents/manifests/${NEXT}.yaml`

/** The requests of a count: all of them go to the two Pods that listen once in 16,000 times. */
const REQUESTS = 24

const requestingPage = {
  spec: {
    template: {
      spec: {
        containers: [
          {
            name: 'nginx',
            readinessProbe: { exec: null, httpGet: { path: '/', port: 80 }, periodSeconds: 1 },
          },
        ],
      },
    },
  },
}

export const hollowProbe: Incident = {
  id: 'hollow-probe',
  cause: 'a Pod counts as ready before its program listens, because its probe always succeeds',
  mode: 'iptables',
  stops: 'pod',
  sign: 'If a Pod were ready too early, its own address would refuse a request while `kubectl get pods` shows it as 1/1, and its probe would request nothing of its program.',
  report: () =>
    'Since a Pod of the next release was added this morning, the shop refuses about every third order. Nothing else was changed, every Pod is ready, and an order that is sent again often goes through.',
  hints: [
    'Send a dozen requests from the customer. How many are refused, and what do the others have in common?',
    'Send a request to the address of each Pod in `kubectl get endpointslices -l kubernetes.io/service-name=shop`. One of them refuses.',
    'Why is that Pod ready? Compare the readinessProbe of the Deployments shop and shop-next: which one requests something of the program?',
  ],
  async break(bench) {
    await bench.apply(MANIFEST)
    await bench.rolledOut('Deployment', NEXT)
  },
  symptom: (context) => context.customerOfShop(REQUESTS),
  async causeLeft({ live }) {
    const { items } = await live.client.apps.listNamespacedDeployment({ namespace: 'default' })
    const { replicas, template } = items.find(({ metadata }) => metadata?.name === NEXT)?.spec ?? {}
    if (!template || replicas === 0)
      return `the next release is gone, and will be needed: \`kubectl apply -f ${MANIFEST}\` brings it back`
    const probe = template.spec?.containers[0]?.readinessProbe
    if (!probe)
      return `the Deployment ${NEXT} has no readiness probe: its Pod would be ready as soon as it runs`
    return probe.exec?.command?.join(' ') === 'true'
      ? `the readiness probe of the Deployment ${NEXT} still runs "true", which always succeeds`
      : undefined
  },
  fix: () => ({
    commands: [`kubectl patch deployment ${NEXT} -p '${JSON.stringify(requestingPage)}'`],
    play: (bench) => bench.patch('Deployment', NEXT, requestingPage),
  }),
  revert: (bench) => bench.delete('Deployment', NEXT),
  debrief: `A Service relies on the readiness of its Pods, and readiness is the result of the probe. A probe that requests nothing of the
program makes a Pod ready as soon as it runs, and each connection that is sent there is refused by the Pod's own kernel until
the program listens. With a probe that requests a page, the Pod stays out of the rules until then. Deleting it or scaling it
down would have hidden the fault until the next release.`,
}
