// One name, one meaning: what is declared at the top of a file of the product. Tests may call their
// own things as they like.

import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { groupBy } from '../../dataplane/collections.ts'
import { projectRoot } from '../../host/layout.ts'

const listed = execFileSync(
  'git',
  ['ls-files', '--cached', '--others', '--exclude-standard', '*.ts', '*.tsx'],
  { cwd: projectRoot, encoding: 'utf8' },
).split('\n')
// During a merge a file is listed once for each side.
const files = [...new Set(listed)].filter(
  (file) => file !== '' && !/(^|\/)test\/|^vitest\./.test(file),
)

interface Declaration {
  name: string
  file: string
  kind: 'type' | 'function' | 'value'
  isExported: boolean
}

const KINDS = { interface: 'type', type: 'type', class: 'type', function: 'function' } as const
/** The formatter puts every top-level declaration at the beginning of a line. */
const DECLARED =
  /^(export )?(?:default )?(?:declare )?(?:abstract )?(?:async )?(interface|type|class|function|const|let)\*? (\w+)\b(?=([^\n]*\n[^\n]*))/gm
const IS_FUNCTION =
  /^(?:<[^=]*>)?(?:: [^=]+)? =\s+(?:async )?(?:<|\([^)]*$|\(.*\)(?:: [^=]+)? =>|\w+ =>)/

/** The top-level declarations of a file; an overloaded function once. */
function declarationsIn(file: string): Declaration[] {
  const text = readFileSync(join(projectRoot, file), 'utf8')
  const found = [...text.matchAll(DECLARED)].map(([, exported, word, name = '', rest = '']) => {
    const ofWord = KINDS[word as keyof typeof KINDS] as Declaration['kind'] | undefined
    const kind = ofWord ?? (IS_FUNCTION.test(rest) ? 'function' : 'value')
    return { name, file, kind, isExported: exported !== undefined }
  })
  return [...new Map(found.map((one) => [one.name, one])).values()]
}

const byName = groupBy(files.flatMap(declarationsIn), ({ name }) => name)
/** Every lab has one, which course/ loads by the name of the lab's folder. */
const BY_FOLDER = new Set(['solution'])

/** `NAME: FILES` of the names that have more than one declaration and fulfil the condition. */
const declaredAgain = (isWrong: (declarations: readonly Declaration[]) => boolean): string[] =>
  [...byName]
    .filter(([name, all]) => all.length > 1 && !BY_FOLDER.has(name) && isWrong(all))
    .map(([name, all]) => `${name}: ${all.map(({ file }) => file).join(', ')}`)

test('the declarations of the product are found', () => {
  expect(byName.size).toBeGreaterThan(4000)
  expect(byName.get('predict')?.map(({ file, kind }) => [file, kind])).toEqual([
    ['dataplane/predict.ts', 'function'],
  ])
  expect(byName.get('shortened')?.[0]).toMatchObject({ kind: 'function', isExported: true })
  expect(byName.get('KubeProxyMode')?.[0]).toMatchObject({ kind: 'type', isExported: true })
})

test('no type, class or component has the name of another declaration', () => {
  expect(
    declaredAgain((all) =>
      all.some(({ name, kind }) => kind === 'type' || /^[A-Z]\w*[a-z]/.test(name)),
    ),
  ).toEqual([])
})

test('no function that is exported has the name of another function, and no exported name is exported twice', () => {
  expect(
    declaredAgain((all) => {
      const exported = all.filter(({ isExported }) => isExported)
      const functions = all.filter(({ kind }) => kind === 'function')
      return (
        exported.length > 1 ||
        (functions.length > 1 && functions.some(({ isExported }) => isExported))
      )
    }),
  ).toEqual([])
})

/**
 * What goes wrong has four words (docs/ARCHITECTURE.md): three are classes, and the fourth, a bug,
 * is any other error.
 */
const WORDS = ['Failure', 'Trouble', 'Refusal']
/** These end no command: their catcher, named here, makes something else of them. */
const SIGNALS: Record<string, string> = {
  NotApplicable: 'a verdict (grading/judge.ts)',
  PacketsNotSent: 'a verdict (grading/judge.ts)',
  StepError: "vitest's message about a step (grading/steps-as-tests.ts)",
  StatusError: "the API server's reply (embedded/apiserver/server.ts)",
  BadRequest: "the page server's reply (web/page-server.ts)",
  StartFailure: "a line of kube-proxy's log (embedded/kube-proxy/kube-proxy.ts)",
  MountError: "a Pod's event (embedded/kubelet/)",
  LineError: 'a ParseError with the number of the line (dataplane/program-output.ts)',
  NotARule: 'a rule that is kept as text (dataplane/rule.ts)',
  UnknownStatement: 'a statement that is kept as text (dataplane/nft-rule.ts)',
  LateAnswer: 'a node whose kube-proxy is still at work (embedded/node-exec.ts)',
  WrongRoom: 'the state of the connection (room/learner/room-link.ts)',
}

test('every class of errors is a failure, a trouble, a refusal, or a signal that is caught by name', () => {
  const classes = files.flatMap((file) => [
    ...readFileSync(join(projectRoot, file), 'utf8').matchAll(
      /^(?:export )?class (\w+) extends Error\b/gm,
    ),
  ])
  const names = classes.map(([, name = '']) => name)
  expect(names.toSorted()).toEqual([...WORDS, ...Object.keys(SIGNALS)].toSorted())
})
