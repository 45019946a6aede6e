// The draft of a step: one document with all that is written about it, from which `make new-step`
// fills the files of the lab. Pure.

import { parse, stringify } from 'yaml'
import * as z from 'zod'
import { askedTextSchema } from '../../grading/asked-text.ts'
import { stepPacketSchema } from '../step-packet.ts'
import { type LintMessage, oneLine, UNWRITTEN } from './course-files.ts'

/** What the new step asks beside its state. */
export type NewStepAsks = 'predict' | 'question'

/** What `make new-step` is given. */
export interface NewStep {
  /** The step that it follows. */
  after: string
  id: string
  /** What it asks beside its state. */
  asks?: NewStepAsks | undefined
  /** The claim of the curriculum that it proves. */
  claim?: string | undefined
}

/** What a draft needs to know of its lab. */
interface DraftPlace {
  folder: string
  /** The steps that the one before it needs. */
  needs: readonly string[]
  /** The claim is one of the next number in its part, which has no sentence yet. */
  beginsClaim: boolean
  /** The lab's test has a table of what it breaks, a table of wrong answers. */
  breaks: boolean
  refuses: boolean
  /**
   * Its test plays and breaks one step after the other; else all of them are broken once they are
   * solved.
   */
  isByStep: boolean
  /** Under which names the lab's solution answers and predicts. */
  answers: AnswerNames
  /** The packet of the step before it, as labs/packets.yaml has it. */
  packet?: string | undefined
  /** What an author reads and the lab does not get. */
  reference?: string
}

/** Shell text, TypeScript that makes it, or an object with them. */
type Broken = string | Readonly<Partial<Record<'at' | 'break' | 'repair', string>>>

/** A draft as it is read. */
export interface StepDraft extends NewStep {
  /** The part for lab.yaml, as the author wrote it. */
  definition: string
  title: string
  points: number
  /** The sentence of a claim that the step begins. */
  claimed?: string | undefined
  /** Its state is taken back later. */
  isMoment: boolean
  /** A wrong answer that the lab's test types. */
  refused?: string | undefined
  /** What is broken on one node, and how: as `listBreakages` of test/labs/breakage.ts takes it. */
  broken: Readonly<Record<string, Broken>>
  /** A line of the card. */
  card?: string | undefined
  /** The packet that the guide draws beside the step, as labs/packets.yaml has it. */
  packet?: string | undefined
  /** The section of the text without its heading's number, and with what it asks. */
  section: string
  /** The commands of its fences, a line each. */
  commands: readonly string[]
  /** The entry of the reference solution, in TypeScript. */
  solution: string
  slide?: string | undefined
}

/** The parts of a draft behind the section of the text, by the comment that begins each. */
const PARTS = /^<!-- (solution|slide|reference) -->\n/m
const ASKED = `${UNWRITTEN} What is asked?`
/** Where what is asked will be in the text. */
const ASKED_HERE = '<!-- asked -->'
/** What lab.yaml is not told. */
const OWN_KEYS = ['after', 'claim', 'claimed', 'refused', 'broken', 'card', 'packet']

/** The names under which a solution answers and predicts. */
export interface AnswerNames {
  question?: string | undefined
  predict?: string | undefined
}

/** What a solution would type at a step: a prediction before the commands, an answer after them. */
function solutionTemplate(id: string, asks: NewStepAsks | undefined, names: AnswerNames): string {
  const answered = asks && [
    `  ${names[asks] ?? asks}('${id}', '${UNWRITTEN} as typed', async (bench) => '${UNWRITTEN} as read'),`,
  ]
  const typed = [
    `  // ${UNWRITTEN} A word of course/typed-commands.ts for each command of the text that changes something; readsOnly instead of typing(…) if none does.`,
  ]
  const lines =
    asks === 'predict' ? [...(answered ?? []), ...typed] : [...typed, ...(answered ?? [])]
  return ['typing(', ...lines, ')'].join('\n')
}

/** The draft of a new step, whose parts are to be written. */
export function stepDraft({ after, id, asks, claim }: NewStep, place: DraftPlace): string {
  const { folder, needs, beginsClaim, breaks, refuses, packet, reference = '' } = place
  const lines = [
    `after: ${after}`,
    ...(claim
      ? [`claim: ${claim}`]
      : [
          '# One of labs/CURRICULUM.md; for the next one of a part, its sentence in a line "claimed: …".',
          `claim: ${UNWRITTEN} as A7`,
        ]),
    ...(beginsClaim ? [`claimed: ${UNWRITTEN} What is claimed`] : []),
    `title: ${UNWRITTEN} A sentence that is true once the step ${id} is solved`,
    ...(asks ? [`# Also { ask: …, choices: [one, other], many: true }.`, `${asks}: ${ASKED}`] : []),
    '# Taken from the steps that have the most.',
    'points: 3',
    ...(needs.length > 0
      ? [
          '# Leave out steps that the breakage below fails, too: while one of them fails, this step is not judged.',
          `needs: [${needs.join(', ')}]`,
        ]
      : []),
    '# Also kernel: [recent] (or ipvs, ipset, nft) for what a kernel may lack, moment: true for a state that passes.',
    `why: ${UNWRITTEN} Why it matters, in a sentence or two.`,
    'hints:',
    `  - ${UNWRITTEN} A general hint without a command.`,
    `  - ${UNWRITTEN} The command, as in \`make web\`.`,
    ...(breaks
      ? [
          "# One thing on one node for which the check must fail: commands for that node, or a call as in the table of the lab's test,",
          "# deleteRule('KUBE-SERVICES', '203.0.113.4') or ({ web }) => `…`; also { break: … } with `at:` or `repair:`, or both.",
          ...(place.isByStep
            ? []
            : [
                '# It is broken when the whole lab is solved. A state that the text has taken back by then (moment: true) is not there to be',
                '# broken: delete this part, and break it in a test of its own (CONTRIBUTING.md).',
              ]),
          'broken:',
          `  ${UNWRITTEN} what is broken: ${UNWRITTEN} the commands that break it`,
        ]
      : []),
    ...(refuses && asks === 'question' ? [`refused: ${UNWRITTEN} a typical wrong answer`] : []),
    '# Delete the line if it says nothing new, as the slide below.',
    `card: ${UNWRITTEN} What the step ${id} leaves to take to work, in a line.`,
    ...(packet === undefined
      ? []
      : [
          `# The packet that the guide draws beside the text, here that of ${after}: from pod, host, outside or a Pod's name, to a Service or an`,
          '# address with its port, at IPVS, at one of the five hooks, or in the Pod or process. Delete the line if the step is about none.',
          `packet: ${packet}`,
        ]),
  ]
  return `---
${lines.join('\n')}
---

## ${UNWRITTEN} What the step is about

${UNWRITTEN} The reason first, then the commands.

${asks === 'predict' ? `${ASKED_HERE}\n\n` : ''}\`\`\`bash
${UNWRITTEN} the commands
${asks === 'question' ? '' : `make check-${Number(folder.slice(0, 2))} STEP=${id}\n`}\`\`\`

${asks === 'question' ? `${ASKED_HERE}\n\n` : ''}**What you saw.** ${UNWRITTEN} What the commands printed, and what follows from it.

<!-- solution -->

\`\`\`ts
${solutionTemplate(id, asks, place.answers)}
\`\`\`

<!-- slide -->

## ${UNWRITTEN} What the step ${id} shows

<!-- fence: ${folder}/${id}#1 -->

<!-- notes: 2 min
${UNWRITTEN} What the participants expect, and what surprises them.
-->

<!-- reference -->

# To read, not to write: make new-step leaves this part out

${reference}`
}

/** The lines of a draft that are still to be written. */
export function unwrittenIn(text: string, file: string): LintMessage[] {
  return text
    .split('\n')
    .flatMap((line, index) =>
      line.includes(UNWRITTEN)
        ? { file: `${file}:${index + 1}`, text: `text is still to be written (${UNWRITTEN}).` }
        : [],
    )
}

const line = z.string().trim().min(1)
const PACKET_FORM =
  'is not a packet as labs/packets.yaml has them, { from: pod, to: web, at: PREROUTING }'
/** The author's other parts are judged by lab.yaml's own schema once they are in it. */
const headSchema = z.looseObject({
  after: line,
  title: line,
  points: z.number().int().min(1).max(20),
  claim: line.optional(),
  claimed: line.optional(),
  refused: z.union([line, z.number().transform(String)]).optional(),
  moment: z.boolean().optional(),
  broken: z
    .record(line, z.union([line, z.partialRecord(z.enum(['at', 'break', 'repair']), line)]))
    .default({}),
  card: line.optional(),
  // As it is written, without the schema's defaults.
  packet: z
    .custom<object>((value) => stepPacketSchema.safeParse(value).success, PACKET_FORM)
    .optional(),
  predict: askedTextSchema.optional(),
  question: askedTextSchema.optional(),
})

const DRAFT = /^---\n([\s\S]*?\n)---\n+(## [\s\S]*)$/
const TYPESCRIPT_FENCE = /^```ts\n([\s\S]*?\n)```$/m
/** As wide as other lines of a lab's text. */
const QUOTE_LINE = /.{1,114}(?:\s|$)/g
const FENCE = /^```bash.*\n([\s\S]*?)^```/gm

/**
 * Reads a draft. Throws Error with one sentence if it is not one.
 * @param id the id of its step, which is the file's name
 */
export function readDraft(text: string, id: string, lab: number): StepDraft {
  const [written = '', ...parts] = text.replaceAll('\r\n', '\n').split(PARTS)
  const partOf = (name: string) =>
    parts.find((_, at) => at % 2 === 1 && parts[at - 1] === name)?.trim()
  const [, head = '', section = ''] = DRAFT.exec(written) ?? []
  if (section === '')
    throw new Error('begins with its facts between two lines "---", and then with "## Heading"')
  const found = headSchema.safeParse(parsedHead(head))
  if (!found.success) throw new Error(`its facts: ${z.prettifyError(found.error)}`)
  const { after, title, points, claim, claimed, refused, broken, card, predict, question, packet } =
    found.data
  if (predict && question)
    throw new Error('asks twice: write the question by hand once the step is in its lab')
  const [, solution] = TYPESCRIPT_FENCE.exec(partOf('solution') ?? '') ?? []
  if (solution === undefined)
    throw new Error('has no ```ts fence with its solution behind "<!-- solution -->"')
  const asks = predict ? 'predict' : question ? 'question' : undefined
  return {
    after,
    id,
    asks,
    claim,
    claimed,
    title,
    points,
    refused,
    broken,
    card,
    isMoment: found.data.moment === true,
    packet: packet && stringify(packet, { collectionStyle: 'flow', lineWidth: 0 }).trim(),
    definition: labPart(head),
    section: asks ? withQuote(section, asks, quoteOf(found.data, { lab, id })) : section,
    commands: [...section.matchAll(FENCE)].flatMap(([, lines = '']) =>
      lines.split('\n').filter(Boolean),
    ),
    solution: solution.trim().replace(/[,;]$/, ''),
    slide: partOf('slide') || undefined,
  }
}

/** The blockquote of the text with what is asked. */
function quoteOf(
  { predict, question }: Pick<z.infer<typeof headSchema>, NewStepAsks>,
  { lab, id }: { lab: number; id: string },
): string {
  const { ask = '', choices = [] } = predict ?? question ?? {}
  const listed = choices.map((name) => `\`${name}\``).join(' · ')
  const sentence = `**${predict ? 'Predict' : 'Question'}.** ${ask}`
  return [
    ...(sentence.match(QUOTE_LINE) ?? []).map((text) => `> ${text.trimEnd()}`),
    ...(listed ? [`> ${listed}`] : []),
    `> \`make answer LAB=${lab} Q=${id} A='…'\``,
  ].join('\n')
}

function parsedHead(head: string): unknown {
  try {
    return parse(head)
  } catch (error) {
    throw new Error(`its facts are not YAML: ${oneLine(error)}`)
  }
}

/** The facts that belong into lab.yaml, line by line as they were written, without comments. */
const labPart = (head: string): string =>
  head
    .replace(/^ *#.*\n/gm, '')
    .split(/^(?=\S)/m)
    .filter((part) => !OWN_KEYS.includes(/^\w+/.exec(part)?.[0] ?? ''))
    .join('')

/** A prediction comes before the first commands, a question before what was seen. */
function withQuote(section: string, asks: NewStepAsks, quote: string): string {
  const at = section.indexOf(ASKED_HERE)
  if (at === -1) throw new Error(`has no "${ASKED_HERE}" where its text asks`)
  const isLate = asks === 'predict' && section.slice(0, at).includes('\n```bash')
  if (isLate) throw new Error(`has "${ASKED_HERE}" after commands: a prediction comes before them`)
  return section.replace(ASKED_HERE, () => quote)
}
