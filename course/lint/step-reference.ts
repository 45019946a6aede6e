// The reference at the end of a draft: the step before as it is written in each file, and what a
// step can use. Pure.

import { type ClaimTexts, claimsOfLab } from './claim-step.ts'
import { UNWRITTEN } from './course-files.ts'
import { factsIn, signaturesIn } from './signatures.ts'

/** The paths of a step's files, as `filesOfStep` returns them. */
interface ReadFiles extends Record<keyof ClaimTexts, string> {
  definition: string
  text: string
  spec: string
  solution: string
  breakages: string
  card: string
  deck: string
}

/** Where an author finds what a step can use: what it is for, and the modules. */
const MODULES: readonly (readonly [purpose: string, ...modules: string[]])[] = [
  [
    'What a check can say of a node',
    'grading/expect-node.ts',
    'grading/predicted-part.ts',
    'grading/expect-chain.ts',
  ],
  ['What a check can say of an object', 'grading/expect-object.ts'],
  [
    'Its own failures, and a state that is seen once',
    'grading/failure.ts',
    'grading/check-context.ts',
  ],
  ['Real requests', 'grading/requests.ts', 'grading/traffic.ts', 'grading/own-request.ts'],
  ['What was read of the cluster', 'grading/snapshot.ts'],
  ['What a solution can type', 'course/typed-commands.ts'],
  ['What it can read for an answer', 'course/lab-bench.ts', 'course/lab-objects.ts'],
]

/** A declaration that is not exported. */
const DECLARATION = /^(?=(?:async )?function |const )/gm

/** The first match as it is written, or nothing. */
const partOf = (source: string, pattern: RegExp): string[] => [...(pattern.exec(source) ?? [])]

/** An entry of a spec: how it is checked, the step, and what it names. */
const SPEC_ENTRY = /^ {2}(step|liveStep|question)\(\s*'([a-z0-9-]+)'([\s\S]*?)\)\n/gm

/**
 * The functions that a spec names for a step (of `exposedService.addressAnswers` both names); for
 * one that is only a question, also those of the last step before it whose state is checked.
 */
function namesFor(spec: string, step: string): string[] {
  const entries = [...spec.matchAll(SPEC_ENTRY)]
  const index = entries.findIndex(([, , id]) => id === step)
  const before = entries.slice(0, index + 1)
  const nearest = before.findLast(([, kind]) => kind !== 'question')
  return [...new Set([nearest, before.at(-1)])].flatMap((entry) => entry?.[3]?.match(/\w+/g) ?? [])
}

/** A function, also one that another one makes, with the comment before it. */
const functionIn = (source: string, name: string): string[] =>
  partOf(
    source,
    new RegExp(
      `(?:^/\\*\\*(?:(?!\\*/)[\\s\\S])*\\*/\\n)?^export (?:(?:async )?function|const) ${name}\\b.*\\n(?:(?=[ )}\\]]|\\n+ ).*\\n)*`,
      'm',
    ),
  )

/** The imports of a module and its functions of these names; nothing if it has none of them. */
function neighbourIn(source: string, names: readonly string[]): string[] {
  const functions = names.flatMap((name) => functionIn(source, name))
  const imports = source.match(/^import [\s\S]*? from '.*'\n/gm) ?? []
  return functions.length > 0 ? [[imports.join(''), ...functions].join('\n')] : []
}

/** The interfaces of these names, or all, with the comments on their fields. */
const interfacesIn = (source: string, ...names: string[]): string[] => {
  const name = names.length > 0 ? `(?:${names.join('|')})` : '\\w+'
  return source.match(new RegExp(`^(?:export )?interface ${name}\\b[\\s\\S]*?^}\\n`, 'gm')) ?? []
}

/** An entry of a solution, or of a table of breakages; of one that is only a name, its constant. */
const entryIn = (source: string, step: string, indent: string): string[] =>
  partOf(
    source,
    new RegExp(
      `^${indent}(?:'${step}'|${step}): (?:.*,\\n|[\\s\\S]*?^${indent}[)}\\]]+,\\n)|^const ${step}: SolutionStep = [\\s\\S]*?^[)}]\\n`,
      'm',
    ),
  )

/**
 * The section of a text with its step, and the variables that its commands and those before it set.
 */
function textOf(text: string, step: string): { section: string[]; set: string } {
  const section = partOf(
    text,
    new RegExp(`^## .*\\n\\n<!-- step: ${step} -->\\n(?:(?!^## |^# Part )[\\s\\S])*`, 'm'),
  )
  const end = text.indexOf(`<!-- step: ${step} -->`) + (section[0]?.length ?? 0)
  return { section, set: [...text.slice(0, end).matchAll(/^[A-Z][A-Z0-9_]*=.*\n/gm)].join('') }
}

/** A block of Markdown; its own fences stay inside. */
const block = (kind: string, texts: readonly string[]): string =>
  texts.map((text) => `\`\`\`\`${kind}\n${text.trimEnd()}\n\`\`\`\`\n`).join('\n')

const itemsOf = (lines: readonly string[]): string => lines.map((line) => `- ${line}\n`).join('')

/**
 * The reference for the author of a step: Markdown, which `make new-step` leaves out of the lab.
 * @param read a file's text; empty if it does not exist
 */
export function stepReference(
  lab: number,
  after: string,
  files: ReadFiles,
  read: (path: string) => string,
): string {
  const spec = read(files.spec)
  const solution = read(files.solution)
  const breakages = read(files.breakages)
  const own = [...spec.matchAll(/ from '\.\/(.*\.ts)'/g)].map(([, path]) => `checks/${path}`)
  const names = namesFor(spec, after)
  const { section, set } = textOf(read(files.text), after)
  const texts = { claims: read(files.claims), curriculum: read(files.curriculum) }
  const modules = (paths: readonly string[]) =>
    paths.map((path) => `In ${path}:\n\n${itemsOf(signaturesIn(read(path)))}`).join('\n')
  const chapters: [heading: string, ...parts: string[]][] = [
    [
      `The step ${after} as it is written`,
      block(
        'yaml',
        partOf(
          read(files.definition),
          new RegExp(`^ {2}- id: ${after}\\n(?:(?! {2}- id:|\\S).*\\n)*`, 'm'),
        ),
      ),
      block('md', section),
      block(
        'ts',
        own.flatMap((path) => neighbourIn(read(path), names)),
      ),
      block('ts', entryIn(solution, after, '    ')),
      block('ts', entryIn(breakages, after, '  ')),
      block('md', slideOf(read(files.deck), after)),
    ],
    ['The variables that the text has set by then', block('bash', set ? [set] : [])],
    ['The claims of this lab', itemsOf(claimsOfLab(texts, lab))],
    ['Its card', block('md', read(files.card) ? [read(files.card)] : [])],
    [
      'What a reset of the lab undoes',
      'A reset deletes what has the label app=web (with each patch of it) and the notes of the lab, plays this, and starts in iptables mode, unless the solution has a reset of its own:',
      block('ts', partOf(solution, /^ {2}async (?:leave|reset)\(bench\)[\s\S]*?^ {2}\},\n/m)),
    ],
    [
      'What a check is given, and what an answer and a solution are',
      block('ts', [
        ...interfacesIn(read('course/solution-step.ts')),
        ...interfacesIn(read('grading/check-context.ts'), 'CheckContext', 'Truth', 'WrongAnswer'),
        ...interfacesIn(read('grading/failure.ts'), 'FailureDetail'),
        ...interfacesIn(read('grading/expect-object.ts'), 'WebService', 'WebBackend'),
        ...interfacesIn(read('dataplane/node-state.ts'), 'NodeState'),
        ...interfacesIn(read('dataplane/ip-addr.ts'), 'Link'),
        ...interfacesIn(read('dataplane/ipvsadm-save.ts'), 'VirtualServer', 'RealServer'),
        ...functionIn(read('dataplane/objects/service.ts'), 'readService'),
      ]),
      'A learner may have a variant: another name and port of web, and more Pods. Texts say web, web-np and web-lb; a check asks webService or variantIn, a solution bench.variant, and patchService and rolledOut know these names.',
    ],
    [
      'What the solution of this lab has',
      itemsOf(signaturesIn(solution.replace(DECLARATION, 'export '))),
    ],
    [
      'What the checks of this lab have',
      block(
        'ts',
        own.flatMap((path) => interfacesIn(read(path))),
      ),
      modules(own),
    ],
    ...MODULES.map(([purpose, ...paths]): [string, string] => [purpose, modules(paths)]),
    [
      'What its test can break',
      ...(breakages
        ? [
            `The facts in ${files.breakages}:`,
            itemsOf(factsIn(breakages)),
            modules(['test/labs/breakage.ts']),
          ]
        : ['It has no table of breakages: break one thing in its test.']),
    ],
  ]
  return chapters
    .map(([heading, ...parts]) => [`## ${heading}`, ...parts].filter(Boolean).join('\n\n'))
    .join('\n\n')
    .replace(/\n{3,}/g, '\n\n')
    .replaceAll(UNWRITTEN, '')
}

/** The last slide with commands of a step. */
const slideOf = (deck: string, step: string): string[] =>
  deck
    .split('\n---\n')
    .filter((slide) => new RegExp(`<!-- fence: [^ ]*/${step}#`).test(slide))
    .slice(-1)
