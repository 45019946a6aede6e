import { describe, expect, test } from 'vitest'
import { useCluster } from './test-cluster.ts'

const cluster = useCluster()

describe('errors have the messages of Kubernetes', () => {
  const refused = async (command: string, stdin?: string) => {
    const { code, stderr } = await cluster.kubectl(
      command.split(' '),
      stdin === undefined ? {} : { stdin },
    )
    expect(code).toBe(1)
    return stderr
  }

  test('missing, existing and unknown objects', async () => {
    expect(await refused('get pod nobody')).toBe(
      'Error from server (NotFound): pods "nobody" not found\n',
    )
    await cluster.ok('create configmap twice')
    expect(await refused('create configmap twice')).toContain('configmaps "twice" already exists')
    expect(await refused('get gadgets')).toContain(
      'the server doesn\'t have a resource type "gadgets"',
    )
    expect(await refused('create configmap lost -n nowhere')).toContain(
      'namespaces "nowhere" not found',
    )
    expect(await refused('delete namespace kube-system')).toContain(
      'is forbidden: this namespace may not be deleted',
    )
  })

  test.each([
    [
      'create token default',
      /^error: failed to create token: the embedded cluster has no tokens of ServiceAccounts \(.+\); \S+README/,
    ],
    [
      'get --raw /api/v1/namespaces/default/services/web:80/proxy/',
      /the embedded cluster has no proxy to Pods, Services and nodes \(`kubectl port-forward`/,
    ],
    [
      'get --raw /api/v1/namespaces/default/pods/web/proxy/a/b',
      /the embedded cluster has no proxy to Pods/,
    ],
    [
      'explain svc.spec.type',
      /the embedded cluster has no documentation of fields \(kubernetes\.io\S+ has it\)/,
    ],
    [
      'delete service kubernetes --cascade=orphan',
      /the embedded cluster supports only --cascade=background/,
    ],
  ])('%s: what is left out is named, with what serves instead', async (command, sentence) =>
    expect(await refused(command)).toMatch(sentence),
  )

  test('server-side apply is named, and client-side apply instead', async () => {
    const manifest = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied}\n'
    expect(await refused('apply --server-side -f -', manifest)).toContain(
      'the embedded cluster has no server-side apply (`kubectl apply` works without --server-side)',
    )
  })

  test.each([
    ['{ports: [{port: 80, prot: x}]}', 'strict decoding error: unknown field "spec.ports[0].prot"'],
    [
      '{ports: [{port: eighty}]}',
      'cannot unmarshal string into Go struct field ServicePort.spec.ports.port of type int32',
    ],
    ['{ports: [{port: 80}, {port: 81}]}', 'spec.ports[0].name: Required value'],
  ])('a Service with the specification %s', async (spec, fault) => {
    const text = `apiVersion: v1\nkind: Service\nmetadata: {name: wrong}\nspec: ${spec}\n`
    expect(await refused('apply -f -', text)).toContain(fault)
  })

  test.each([
    [{ ports: [{ port: 0 }] }, 'must be between 1 and 65535, inclusive'],
    [
      { ports: [{ port: 80, protocol: 'tcp' }] },
      'Unsupported value: "tcp": supported values: "SCTP", "TCP", "UDP"',
    ],
    [
      { ports: ['a', 'a'].map((name) => ({ name, port: 80 })) },
      'spec.ports[1].name: Duplicate value: "a"',
    ],
    [
      { ports: [{ port: 80, targetPort: 'no_name' }] },
      'spec.ports[0].targetPort: Invalid value: "no_name": must contain',
    ],
    [
      { type: 'NodePort', ports: [{ port: 80, nodePort: 80 }] },
      'The range of valid ports is 30000-32767',
    ],
    [
      { ports: [{ port: 80, nodePort: 30080 }] },
      "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'Cl",
    ],
    [{ clusterIP: '10.96.0.1', ports: [{ port: 80 }] }, 'provided IP is already allocated'],
    [
      { clusterIP: '10.97.0.1', ports: [{ port: 80 }] },
      'is not in the valid range. The range of valid IPs is 10.96.0.0/16',
    ],
    [{ externalIPs: ['127.0.0.1'], ports: [{ port: 80 }] }, 'may not be in the loopback range'],
    [
      { ports: [{ port: 80 }], externalTrafficPolicy: 'Local' },
      'may only be set for externally-accessible services',
    ],
    [
      { type: 'LoadBalancer', ports: [{ port: 80 }], loadBalancerSourceRanges: ['10.0.0.0'] },
      'spec.loadBalancerSourceRanges[0]: Invalid value: "10.0.0.0": must be a valid CIDR value',
    ],
  ])('%j is no specification of a Service', (spec, fault) => {
    expect(() =>
      cluster.api.create('services', 'default', { metadata: { name: 'wrong' }, spec }),
    ).toThrow(fault)
  })

  test('a Deployment: every fault at once, and a fixed selector', async () => {
    const text = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: Wrong_Name, labels: {a: 'b c'}}
spec:
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: b}}
    spec: {containers: [{name: a, ports: [{containerPort: 70000}]}]}
`
    const faults = await refused('create -f -', text)
    expect(faults).toContain(
      'metadata.name: Invalid value: "Wrong_Name": a lowercase RFC 1123 subdomain',
    )
    expect(faults).toContain('metadata.labels: Invalid value: "b c"')
    expect(faults).toContain('`selector` does not match template `labels`')
    expect(faults).toContain('containers[0].image: Required value')
    expect(faults).toContain(
      'containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive',
    )
    await cluster.ok('create deployment fixed --image=nginx')
    const change =
      '{"spec":{"selector":{"matchLabels":{"app":"other"}},"template":{"metadata":{"labels":{"app":"other"}}}}}'
    expect(await refused(`patch deployment fixed -p ${change}`)).toContain('field is immutable')
  })

  test('node ports are released with the type, and taken only once', async () => {
    await cluster.ok('create service nodeport first --tcp=80:80 --node-port=30123')
    expect(await refused('create service nodeport second --tcp=80:80 --node-port=30123')).toContain(
      'spec.ports[0].nodePort: Invalid value: 30123: provided port is already allocated',
    )
    await cluster.ok('patch service first -p {"spec":{"type":"ClusterIP"}}')
    await cluster.ok('create service nodeport second --tcp=80:80 --node-port=30123')
  })

  // registry/generic/registry/store.go: an object that exists is noticed last, when it is written.
  test('of an object that exists everything else is checked first', async () => {
    await cluster.ok('create namespace early')
    await cluster.ok('create configmap early -n early')
    await cluster.ok('create service nodeport early -n early --tcp=80 --node-port=30444')
    await cluster.ok('create service clusterip early-ip -n early --tcp=80 --clusterip=10.96.44.44')
    const again = (text: string) => refused('create -f -', text)
    const service = (name: string, spec: object) =>
      again(
        JSON.stringify({
          apiVersion: 'v1',
          kind: 'Service',
          metadata: { name, namespace: 'early' },
          spec,
        }),
      )
    const ports = [{ port: 80 }]
    const nodePort = (nodePort: number) => ({ type: 'NodePort', ports: [{ port: 80, nodePort }] })
    expect(await service('early', nodePort(30444))).toContain('provided port is already allocated')
    expect(await service('early', nodePort(80))).toContain(
      'provided port is not in the valid range',
    )
    expect(await service('early-ip', { clusterIP: '10.96.44.44', ports })).toContain(
      'provided IP is already allocated',
    )
    expect(await service('early', { ports: [{ port: 0 }] })).toContain(
      'must be between 1 and 65535',
    )
    expect(await service('early', nodePort(0))).toContain('services "early" already exists')
    const map = {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'early', namespace: 'early' },
    }
    expect(await again(JSON.stringify({ ...map, data: { 'a b': '' } }))).toContain(
      'Invalid value: "a b"',
    )
    expect(await again(JSON.stringify(map))).toContain('configmaps "early" already exists')
    expect(await refused('create configmap early -n nowhere')).toContain(
      'namespaces "nowhere" not found',
    )
  })

  test('a wrong token is unauthorized', async () => {
    const { stderr } = await cluster.kubectl(['get', 'pods', '--token=wrong'])
    expect(stderr).toMatch(/You must be logged in|Unauthorized/)
  })
})
