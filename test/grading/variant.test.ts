import { expect, test } from 'vitest'
import { readLabText } from '../../course/lab-text.ts'
import { readLab } from '../../grading/lab-definition.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import {
  LEARNER_MAP,
  learnerIn,
  personalise,
  STANDARD,
  variantFor,
  variantIn,
} from '../../grading/variant.ts'

const map = (learner: string, name = LEARNER_MAP) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, namespace: 'default' },
  data: { learner },
})
const snapshot = (...items: unknown[]) =>
  new Snapshot({ objects: { apiVersion: 'v1', kind: 'List', items }, nodes: [], takenAt: 0 })

test('a variant depends only on the name, and stays within the limits of the labs', () => {
  const learners = Array.from({ length: 500 }, (_, index) => `learner-${index}`)
  const variants = learners.map(variantFor)
  expect(variants).toEqual(learners.map((learner) => variantFor(learner.toUpperCase())))
  for (const { name, port, replicas } of variants) {
    expect(name).toMatch(/^web-[a-z]{3}$/)
    expect(port).toBeGreaterThanOrEqual(8000)
    expect(port).toBeLessThan(9000)
    expect([2, 3, 4]).toContain(replicas)
  }
  expect(
    new Set(variants.map(({ name, port, replicas }) => `${name}:${port}/${replicas}`)).size,
  ).toBeGreaterThan(490)
  expect(new Set(variants.map(({ replicas }) => replicas))).toEqual(new Set([2, 3, 4]))
  expect(variantFor(undefined)).toEqual(STANDARD)
  expect(variantFor('')).toEqual(STANDARD)
})

test("the learner's name is read from the cluster; an invalid name is ignored", () => {
  expect(learnerIn([null, 7, map('alice')])).toBe('alice')
  expect(learnerIn([map('alice', 'other')])).toBeUndefined()
  expect(learnerIn([map('../alice')])).toBeUndefined()
  expect(variantIn(snapshot(map('alice')))).toEqual(variantFor('alice'))
  expect(variantIn(snapshot())).toEqual(STANDARD)
})

test('commands use the names of the variant; step ids, labels and targets are unchanged', () => {
  const own = { name: 'web-abc', port: 8123, replicas: 3 }
  const outputOf = (text: string) => personalise(text, own)
  expect(outputOf('kubectl get service web -o wide')).toBe('kubectl get service web-abc -o wide')
  expect(outputOf('make trace TO=svc/web:80')).toBe('make trace TO=svc/web-abc:8123')
  expect(outputOf('kubectl expose deployment web --name web-np --type NodePort --port 80')).toBe(
    'kubectl expose deployment web-abc --name web-abc-np --type NodePort --port 8123 --target-port 80',
  )
  expect(outputOf('curl -s --max-time 3 $WEB; done"')).toBe('curl -s --max-time 3 $WEB:8123; done"')
  expect(outputOf('curl -s http://$WEB')).toBe('curl -s http://$WEB:8123')
  expect(outputOf('ipvsadm -Ln -t $WEB:80')).toBe('ipvsadm -Ln -t $WEB:8123')
  for (const same of [
    'make web',
    'make check-2 STEP=web',
    'kubectl get pods -l app=web',
    'ipset test X $WEB,tcp',
  ])
    expect(outputOf(same)).toBe(same)
  expect(personalise('kubectl get service web', STANDARD)).toBe('kubectl get service web')
})

test('no command of lab 2 contains the standard name or port of the Service', () => {
  const own = variantFor('alice')
  const commands = readLabText(readLab(2).folder).fences.map(({ commands }) =>
    personalise(commands, own),
  )
  for (const line of commands.join('\n').split('\n')) {
    expect(line).not.toMatch(
      /(service|deployment|svc)[ /]web(?![\w-])|web-np\b|\$WEB:80\b|--port 80\b/,
    )
  }
  const requests = commands.join('\n').match(/.*curl.*\$WEB.*/g) ?? []
  expect(requests).not.toEqual([])
  expect(requests.filter((line) => !line.includes(`$WEB:${own.port}`))).toEqual([])
})
