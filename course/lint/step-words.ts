// What the author of a step can use: what a check can say, a solution type and a test break, listed from their sources. Pure.

/** What begins a declaration, as the formatter writes it: a function, a constant (perhaps an arrow function), a method of a class. */
const DECLARED = [
  /^export (?:async )?function (?<name>\w+)(?:<[^(]*>)?(?=\()/,
  /^export const (?<name>\w+)(?:: [^=]+)? =\s+(?:async )?(?:<[^(]*>)?(?=\()/,
  /^export const (?<name>\w+)\b/,
  /^ {2}(?:async )?(?<name>(?!constructor\b)[a-z]\w*)(?=\()/,
]
const CLASS = /^(?:export )?class /
const COMMENT = /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\n$/
/** The type of the result, up to the body. */
const RESULT = /^(?:: ([\s\S]*?))?(?: \{\n| =>)/

/** The text from a bracket up to the one that closes it; empty if none does. */
function bracketed(source: string): string {
  let depth = 0
  for (let at = 0; at < source.length; at++) {
    if ('([{'.includes(source[at] ?? '')) depth++
    if (')]}'.includes(source[at] ?? '')) depth--
    if (depth === 0) return source.slice(0, at + 1)
  }
  return ''
}

const onOneLine = (text: string): string =>
  text
    .replace(/\/\*\*[\s\S]*?\*\/|\/\/.*/g, '')
    .replace(/\s+/g, ' ')
    .replace(/([([]) /g, '$1')
    .replace(/,? ([)\]])/g, '$1')
    .replace(/, \}/g, ' }')
    .trim()

/** The first sentence of a comment. */
const firstSentence = (comment: string): string =>
  comment
    .replace(/^ *\*+ ?/gm, '')
    .replace(/\s+/g, ' ')
    .replace(/ ?@\w+ .*/, '')
    .replace(/\. [A-Z`].*/, '.')
    .trim()

/** A line for each exported function, constant and method of a module: its name, parameters and result, and the first sentence about it. */
export function wordsIn(source: string): string[] {
  let isInClass = false
  let start = 0
  return source.split(/(?<=\n)/).flatMap((line) => {
    const rest = source.slice(start)
    const comment = COMMENT.exec(source.slice(0, start))?.[1] ?? ''
    start += line.length
    if (/^\S/.test(line)) isInClass = CLASS.test(line)
    if (line.startsWith('  ') && !isInClass) return []
    const found = DECLARED.map((declared) => declared.exec(rest)).find((match) => match !== null)
    if (!found?.groups) return []
    const after = rest.slice(found[0].length)
    const parameters = after.startsWith('(') ? bracketed(after) : ''
    const result = parameters && RESULT.exec(after.slice(parameters.length))?.[1]
    const declared = onOneLine(`${found.groups.name}${parameters}${result ? `: ${result}` : ''}`)
    const told = firstSentence(comment)
    return [told ? `${declared}: ${told}` : declared]
  })
}

/** The names of what a module exports. */
export const exportsIn = (source: string): string[] =>
  [...source.matchAll(/^export (?:(?:async )?function|const) (\w+)/gm)].map(([, name = '']) => name)

/** The fields of the interfaces that a module exports, each with the comment about it. */
export const factsIn = (source: string): string[] =>
  [...source.matchAll(/^export interface \w+ \{\n([\s\S]*?)^\}/gm)].flatMap(([, fields = '']) =>
    [...fields.matchAll(/^(?: {2}\/\*\*(.*)\*\/\n)? {2}(\w.*)\n/gm)].map(([, told = '', field]) =>
      [field, told.trim()].filter(Boolean).join(': '),
    ),
  )

/** The functions of a check's module that a spec names for a step: `exposedService.addressAnswers`, `shopIsCalled`. */
const namesFor = (spec: string, step: string): string[] => {
  const [, entry = ''] =
    new RegExp(`^ {2}(?:step|liveStep|question)\\(\\s*'${step}'([\\s\\S]*?)\\)\\n`, 'm').exec(
      spec,
    ) ?? []
  return entry.match(/\w+/g) ?? []
}

/** A function with the comment before it, as it is written. */
const functionIn = (source: string, name: string): string[] => [
  ...(new RegExp(
    `(?:^/\\*\\*(?:(?!\\*/)[\\s\\S])*\\*/\\n)?^export (?:async )?function ${name}\\b[\\s\\S]*?^}\\n`,
    'm',
  ).exec(source) ?? []),
]

/** An entry of a solution, or of a table of breakages, as it is written; for one that is only a name, its constant. */
const entryIn = (source: string, step: string, indent: string): string[] => [
  ...(new RegExp(
    `^${indent}(?:'${step}'|${step}): (?:.*,\\n|[\\s\\S]*?^${indent}[)}\\]]+,\\n)|^const ${step}: SolutionStep = [\\s\\S]*?^[)}]\\n`,
    'm',
  ).exec(source) ?? []),
]

/** Where an author finds what a step can use: what it is for, and the modules. */
const MODULES: readonly (readonly [purpose: string, ...modules: string[]])[] = [
  [
    'What a check can say of a node',
    'grading/expect-node.ts',
    'grading/predicted-part.ts',
    'grading/expect-chain.ts',
  ],
  ['Of an object of the API', 'grading/expect-object.ts'],
  ['Failures of its own', 'grading/failure.ts'],
  ['Real requests', 'grading/requests.ts', 'grading/traffic.ts', 'grading/own-request.ts'],
  ['What was read', 'grading/snapshot.ts'],
  ['What a solution can type', 'course/typed-commands.ts'],
  ['What it reads for an answer', 'course/lab-bench.ts', 'course/lab-objects.ts'],
]

const itemsOf = (lines: readonly string[]): string =>
  lines.map((line) => `- ${line.replaceAll('✎', '')}\n`).join('')

/**
 * The part of a draft for its author to read: how the step before is written in TypeScript, and what the step can use, as the sources
 * say it. `make new-step` leaves it out of the lab.
 * @param read a file's text; empty if it does not exist
 */
export function wordsOfStep(
  { spec, solution, breakages }: Record<'spec' | 'solution' | 'breakages', string>,
  after: string,
  read: (path: string) => string,
): string {
  const own = [...read(spec).matchAll(/ from '\.\/(.*\.ts)'/g)].map(([, path]) => `checks/${path}`)
  const names = namesFor(read(spec), after)
  const modules = (paths: readonly string[]) =>
    paths.map((path) => `In ${path}:\n\n${itemsOf(wordsIn(read(path)))}`).join('\n')
  const code = (source: readonly string[]) =>
    source.map((text) => `\`\`\`ts\n${text}\`\`\`\n`).join('\n')
  const facts = factsIn(read(breakages))
  return [
    `## The step ${after} in TypeScript`,
    code(own.flatMap((path) => names.flatMap((name) => functionIn(read(path), name)))),
    code([...entryIn(read(solution), after, '    '), ...entryIn(read(breakages), after, '  ')]),
    `## What the checks of this lab have\n\n${modules(own)}`,
    ...MODULES.map(([purpose, ...paths]) => `## ${purpose}\n\n${modules(paths)}`),
    ...(read(breakages) === ''
      ? []
      : [
          `## What its test can break\n\nThe facts in ${breakages}:\n\n${itemsOf(facts)}`,
          modules(['test/labs/breakage.ts']),
        ]),
  ]
    .filter(Boolean)
    .join('\n\n')
    .replace(/\n{3,}/g, '\n\n')
}
