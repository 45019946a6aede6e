import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { controlPlane, type GuestCluster, nodes, startGuestCluster, worker, worker2 } from './guest-cluster.ts'

let cluster: GuestCluster

beforeAll(async () => {
  cluster = await startGuestCluster()
  cluster.create('web-a', worker, { image: 'nginx' })
  cluster.create('web-b', worker2, { image: 'docker.io/library/nginx:1.27' })
  cluster.create('shell', worker, { image: 'nicolaka/netshoot' })
  cluster.create('echo', worker2, { image: 'echo', env: [{ name: 'PORT', value: '9000' }] })
  await cluster.ready('web-a', 'web-b', 'shell', 'echo')
})

afterAll(() => cluster?.stop())

const addressOf = (name: string) => cluster.pod(name)?.status?.podIP ?? ''

describe('the network', () => {
  test('a Pod reaches nginx on its own node and on another one with its own address', async () => {
    const { stdout } = await cluster.exec('shell', `curl -s ${addressOf('web-a')}; curl -s ${addressOf('web-b')}`)
    expect(stdout).toBe(
      ['web-a', 'web-b']
        .map((name) => {
          const [node, ip] = [cluster.pod(name)?.spec.nodeName, addressOf(name)]
          return `Pod: ${name}\nNode: ${node}\nPod IP: ${ip}\nClient: ${addressOf('shell')}\n`
        })
        .join(''),
    )
  })

  test('Pods of one node have consecutive addresses of its range, and neighbours are reached through the node', async () => {
    expect(addressOf('web-a')).toMatch(/^10\.244\.1\.[23]$/)
    const { stdout } = await cluster.exec('shell', 'ip route')
    expect(stdout).toContain('default via 10.244.1.1 dev eth0')
    expect(stdout).toContain('10.244.1.0/24 via 10.244.1.1 dev eth0')
    expect(stdout).toContain('10.244.1.1 dev eth0 scope link')
  })

  test('a node reaches Pods of every node', async () => {
    for (const node of [controlPlane, worker, worker2]) {
      const { stdout } = await cluster.onNode(node, `hostname; curl -s ${addressOf('web-b')}`)
      expect(stdout).toMatch(new RegExp(`^${node}\nPod: web-b\n`))
    }
  })

  test('every node has the routes and rules of a kind node without kube-proxy', async () => {
    const { stdout } = await cluster.onNode(worker, 'ip route; iptables-save; cat /proc/sys/net/ipv4/ip_forward')
    expect(stdout).toContain('default via 172.18.0.1 dev eth0')
    for (const { podCIDR, address } of nodes.filter(({ name }) => name !== worker))
      expect(stdout).toContain(`${podCIDR} via ${address} dev eth0`)
    expect(stdout).toMatch(/10\.244\.1\.\d+ dev veth[0-9a-f]{8} scope host/)
    const recorded = 'data/recordings/kind-v1.20.2/baseline/nodes/k8s-guide-worker/iptables-save'
    const masquerading = readFileSync(recorded, 'utf8').match(/^-A .*KIND-MASQ-AGENT.*$/gm) ?? []
    expect(masquerading).toHaveLength(3)
    for (const rule of masquerading) expect(stdout).toContain(rule)
    for (const chain of ['KUBE-IPTABLES-HINT', 'KUBE-KUBELET-CANARY', 'KUBE-FIREWALL'])
      expect(stdout).toContain(`:${chain} -`)
    expect(stdout).toMatch(/\n1\n$/)
  })

  test('the address outside the cluster sees the node, because traffic that leaves is masqueraded', async () => {
    const server = await cluster.machine.spawn(['socat', 'TCP-LISTEN:9999,reuseaddr', 'SYSTEM:echo $SOCAT_PEERADDR'])
    const ask = 'for i in 1 2 3 4 5 6 7 8 9; do socat -u TCP:172.18.0.1:9999 - && break; done'
    const { stdout } = await cluster.exec('shell', ask)
    server.kill('SIGKILL')
    expect(stdout.trim()).toBe('172.18.0.3')
  })

  test('the echo image answers TCP and UDP with the Pod and the client', async () => {
    const address = `${addressOf('echo')}:9000`
    const { stdout } = await cluster.exec(
      'shell',
      `echo one | socat - TCP:${address}; echo two | socat -t2 - UDP:${address}`,
    )
    const client = addressOf('shell').replaceAll('.', '\\.')
    expect(stdout).toMatch(
      new RegExp(`^Pod: echo\nClient: ${client}:\\d+\none\nPod: echo\nClient: ${client}:\\d+\ntwo\n$`),
    )
  })

  test('a Pod with hostNetwork has the address of its node', async () => {
    cluster.create('host', worker, { image: 'tools' }, { hostNetwork: true })
    await cluster.ready('host')
    expect(addressOf('host')).toBe('172.18.0.3')
    const { stdout } = await cluster.exec('host', `hostname; curl -s ${addressOf('web-b')}`)
    expect(stdout).toMatch(new RegExp(`^${worker}\n`))
    expect(stdout).toContain('Client: 172.18.0.3\n')
  })
})

describe('logs and exec', () => {
  test('nginx logs requests in the combined format, in order, with options', async () => {
    await cluster.exec('shell', `curl -s ${addressOf('web-a')}/missing; curl -s ${addressOf('web-a')}/again`)
    const line = (path: string) =>
      new RegExp(`${addressOf('shell')} - - \\[.*\\] "GET ${path} HTTP/1.1" 404 \\d+ "-" "curl/`)
    await expect.poll(() => cluster.logs('web-a')).toMatch(line('/again'))
    expect(await cluster.logs('web-a')).toMatch(line('/missing'))
    const last = await cluster.logs('web-a', { tailLines: 1, timestamps: true })
    expect(last).toMatch(line('/again'))
    expect(last).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z /)
    expect(await cluster.logs('web-a', { limitBytes: 5 })).toHaveLength(5)
    await expect(cluster.logs('web-a', { previous: true })).rejects.toThrow('previous terminated container "main"')
  })

  test('the page of nginx can be changed', async () => {
    const html = '/usr/share/nginx/html/index.html'
    expect((await cluster.exec('web-b', `echo changed >${html}`)).exitCode).toBe(0)
    const { stdout } = await cluster.exec('shell', `curl -s ${addressOf('web-b')}; curl -s ${addressOf('web-a')}`)
    expect(stdout).toMatch(/^changed\nPod: web-a\n/)
    await cluster.exec('web-b', `rm ${html}`)
  })

  test('exec joins the namespaces of the container and passes its exit code', async () => {
    const { stdout, exitCode } = await cluster.exec('web-a', 'hostname; cat /proc/1/comm; echo $HOSTNAME; exit 7')
    expect(stdout).toBe('web-a\nnginx\nweb-a\n')
    expect(exitCode).toBe(7)
    await expect(cluster.exec('nosuch', 'true')).rejects.toThrow('pods "nosuch" not found')
    await expect(cluster.exec('web-a', 'true', 'side')).rejects.toThrow('container side is not valid for pod web-a')
  })

  test('a program may open /dev/stdout and /dev/stderr', async () => {
    const { stdout, stderr } = await cluster.exec('shell', 'echo out >/dev/stdout; echo err >/dev/stderr')
    expect([stdout, stderr]).toEqual(['out\n', 'err\n'])
  })
})

test('a file of the host cannot be changed from a node, a Pod or the guest itself', async () => {
  const before = readFileSync('/etc/hostname')
  const write = 'echo changed >/etc/hostname; cat /etc/hostname'
  expect((await cluster.exec('shell', write)).stdout).toBe('changed\n')
  expect((await cluster.onNode(worker2, write)).stdout).toBe('changed\n')
  expect((await cluster.machine.run(['sh', '-c', write])).stdout).toBe('changed\n')
  expect((await cluster.onNode(worker, 'cat /etc/hostname')).stdout).toBe(`${worker}\n`)
  expect(readFileSync('/etc/hostname')).toEqual(before)
})

test('the kernel has IPVS and ipset', async () => {
  const service = 'ipvsadm -A -t 10.96.9.9:80 -s wlc && ipvsadm -Sn; ipset create x hash:ip,port && ipset list -n'
  expect((await cluster.onNode(worker, service)).stdout).toBe('-A -t 10.96.9.9:80 -s wlc\nx\n')
  expect((await cluster.onNode(worker2, 'ipvsadm -Sn; ipset list -n')).stdout).toBe('')
})

test('when the kubelets stop, no process and no namespace of a Pod is left', async () => {
  await cluster.kubelets.stop()
  const { stdout } = await cluster.machine.run(['sh', '-c', 'ip netns | grep cni-; ls /run/pods; ps -e -o comm='])
  expect(stdout).not.toMatch(/cni-|nginx|unshare|perl|dnsmasq/)
  expect(stdout.match(/^sleep$/gm)).toHaveLength(nodes.length)
})
