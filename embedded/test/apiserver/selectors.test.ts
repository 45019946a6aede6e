import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { matchesSelector } from '../../../dataplane/label-selector.ts'
import { resourceNamed } from '../../apiserver/resource.ts'
import { parseLabelSelector, selects } from '../../apiserver/selectors.ts'

const name = fc.constantFrom('app', 'tier', 'example.com/role', 'x-y.z')
const value = fc.constantFrom('', 'a', 'b', '1.2_3')
const labels = fc.dictionary(name, value)

describe('label selectors', () => {
  test.each([
    ['app=web', true],
    ['app==web,tier=front', true],
    ['app!=web', false],
    ['other!=web', true],
    ['app in (db, web)', true],
    ['tier notin (front)', false],
    ['other notin (x)', true],
    ['app', true],
    ['!app', false],
    ['!other', true],
    ['', true],
  ])('%s', (text, expected) => {
    expect(matchesSelector(parseLabelSelector(text), { app: 'web', tier: 'front' })).toBe(expected)
  })

  test.each(['app=a b', 'app in web', '=x', 'app,', 'a=b=c', 'app in (a', '!app=x'])(
    '%s is refused',
    (text) => {
      expect(() => parseLabelSelector(text)).toThrow(/unable to parse requirement/)
    },
  )

  test.each([
    ['no selector', undefined, false],
    ['an empty selector', {}, true],
    [
      'a label that every JavaScript object has',
      { matchExpressions: [{ key: 'constructor', operator: 'Exists' }] },
      false,
    ],
    [
      'NotIn without the label',
      { matchExpressions: [{ key: 'other', operator: 'NotIn', values: ['x'] }] },
      true,
    ],
    [
      'DoesNotExist with the label',
      { matchExpressions: [{ key: 'app', operator: 'DoesNotExist' }] },
      false,
    ],
    [
      'an unknown operator',
      { matchExpressions: [{ key: 'app', operator: 'Gt', values: ['1'] }] },
      false,
    ],
  ])('%s', (_, selector, expected) => {
    expect(matchesSelector(selector, { app: 'web' })).toBe(expected)
  })

  test('an object matches its own labels, and each requirement has its opposite', () => {
    fc.assert(
      fc.property(labels, name, value, (own, key, wanted) => {
        const all = Object.entries(own).map(([label, text]) => `${label}=${text}`)
        const matches = (text: string) => matchesSelector(parseLabelSelector(text), own)
        expect(matches(all.join(','))).toBe(true)
        expect(matches(`${key}=${wanted}`)).toBe(!matches(`${key}!=${wanted}`))
        expect(matches(`${key} in (${wanted})`)).toBe(!matches(`${key} notin (${wanted})`))
        expect(matches(key)).toBe(!matches(`!${key}`))
        expect(matchesSelector({ matchLabels: own }, own)).toBe(true)
      }),
    )
  })
})

describe('field selectors', () => {
  const pods = resourceNamed('pods')
  const metadata = {
    name: 'a',
    namespace: 'b',
    uid: 'u',
    resourceVersion: '1',
    creationTimestamp: '',
  }
  const [spec, status] = [{ nodeName: 'n' }, { phase: 'Running' }]
  const pod = { apiVersion: 'v1', kind: 'Pod', metadata, spec, status }

  test.each([
    ['metadata.name=a,status.phase=Running', true],
    ['spec.nodeName==n', true],
    ['spec.nodeName!=n', false],
    ['spec.hostNetwork=false', true],
    ['status.podIP=', true],
    ['status.phase!=Running', false],
  ])('%s', (text, expected) => {
    expect(selects(pods, { fieldSelector: text })(pod)).toBe(expected)
  })

  test('a field that is not selectable is refused', () => {
    expect(() => selects(pods, { fieldSelector: 'spec.containers=x' })).toThrow(
      'field label not supported: spec.containers',
    )
    expect(() => selects(pods, { fieldSelector: 'nonsense' })).toThrow('invalid selector')
  })
})
