import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { useCluster } from './test-cluster.ts'

const cluster = useCluster()

function file(name: string, text: string): string {
  const path = join(cluster.folder, name)
  writeFileSync(path, text)
  return path
}

const manifest = (replicas: number, ports: string) => `
apiVersion: apps/v1
kind: Deployment
metadata: {name: applied}
spec:
  replicas: ${replicas}
  selector: {matchLabels: {app: applied}}
  template:
    metadata: {labels: {app: applied}}
    spec: {containers: [{name: nginx, image: nginx}]}
---
apiVersion: v1
kind: Service
metadata: {name: applied}
spec:
  selector: {app: applied}
  ports: [${ports}]
`

describe('apply, edit and patch', () => {
  test('client-side apply creates, leaves alone, changes and removes', async () => {
    const path = file(
      'applied.yaml',
      manifest(3, '{name: http, port: 80}, {name: https, port: 443}'),
    )
    expect(await cluster.ok(`apply -f ${path}`)).toBe(
      'deployment.apps/applied created\nservice/applied created\n',
    )
    expect(await cluster.ok(`apply -f ${path}`)).toBe(
      'deployment.apps/applied unchanged\nservice/applied unchanged\n',
    )
    file('applied.yaml', manifest(4, '{name: http, port: 80}'))
    const diff = await cluster.kubectl(['diff', '-f', path])
    expect(diff.code).toBe(1)
    expect(diff.stdout).toContain('+  replicas: 4')
    expect(await cluster.ok(`apply -f ${path}`)).toBe(
      'deployment.apps/applied configured\nservice/applied configured\n',
    )
    expect(await cluster.ok('get service applied -o jsonpath={.spec.ports[*].name}')).toBe('http')
    expect(await cluster.ok(`replace -f ${path}`)).toContain('service/applied replaced')
    expect(await cluster.ok(`delete -f ${path}`)).toContain('deleted')
  })

  test('edit writes what the editor leaves', async () => {
    await cluster.ok('create deployment edited --image=nginx')
    const env = { KUBE_EDITOR: 'sed -i s/replicas:.1/replicas:\\ 6/' }
    const { stdout } = await cluster.kubectl(['edit', 'deployment', 'edited'], { env })
    expect(stdout).toContain('deployment.apps/edited edited')
    expect(cluster.api.get('deployments', 'default', 'edited')).toMatchObject({
      spec: { replicas: 6 },
    })
  })

  test('the three patch types', async () => {
    await cluster.ok('create deployment patched --image=nginx')
    const patch = (type: string, text: string) =>
      cluster.kubectl(['patch', 'deployment', 'patched', '--type', type, '-p', text])
    const images = () =>
      cluster.ok('get deployment patched -o jsonpath={.spec.template.spec.containers[*].image}')
    await patch(
      'strategic',
      '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"busybox"}]}}}}',
    )
    expect((await images()).split(' ').sort()).toEqual(['busybox', 'nginx'])
    await patch(
      'json',
      '[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"caddy"}]',
    )
    expect(await images()).toContain('caddy')
    await patch(
      'merge',
      '{"spec":{"template":{"spec":{"containers":[{"name":"only","image":"httpd"}]}}}}',
    )
    expect(await images()).toBe('httpd')
    const failed = await patch('json', '[{"op":"remove","path":"/spec/nothing"}]')
    expect(failed.code).toBe(1)
    expect(failed.stderr).toContain('nothing')
  })

  test('a dry run changes nothing', async () => {
    const printed = await cluster.ok(
      'create deployment ghost --image=nginx --dry-run=server -o yaml',
    )
    expect(printed).toContain('imagePullPolicy: Always')
    expect(cluster.api.get('deployments', 'default', 'ghost')).toBeUndefined()
    await cluster.ok('create configmap stays')
    expect(await cluster.ok('delete configmap stays --dry-run=server')).toContain(
      'deleted (server dry run)',
    )
    expect(cluster.api.get('configmaps', 'default', 'stays')).toBeDefined()
  })
})
