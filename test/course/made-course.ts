import type { LabSolution } from '../../course/lab-solution.ts'
import {
  type CourseFiles,
  cardOf,
  deckOf,
  filesOfLab,
  type LabFiles,
} from '../../course/lint/course-files.ts'

const step = (id: string, extra = '') => `  - id: ${id}
    title: The step ${id} has been done
    points: 20
    why: A test needs it.
    hints: [Look around., Run \`make web\` for ${id}.]
${extra}`

const section = (id: string, number: number) => `## ${number}. About ${id}

<!-- step: ${id} -->

\`\`\`bash
make web
kubectl apply -f labs/07-made/manifests/${id}.yaml
\`\`\`

${asking.includes(id) ? quote('Question', id, `What is ${id}?`) : ''}
**What you saw.** Something.
`

const ids = ['one', 'two', 'three', 'four', 'five']
const asking = ['three', 'four', 'five']

const recall = (id: string) => `  - id: ${id}
    ask: What do you remember of ${id}?
    accepts: [all]
    because: A lab opens with it.
`

const quote = (kind: string, id: string, ask: string) =>
  `> **${kind}.** ${ask}\n> \`make answer LAB=7 Q=${id} A='…'\`\n`

const recalled = ['before', 'earlier']
const nothing = async () => undefined

/** The texts of a lab without faults. */
export const good = {
  definition: `id: 7\ntitle: A lab that was made up\nminutes: 10\nrecall:\n${recalled.map(recall).join('')}steps:\n${ids
    .map((id) => step(id, asking.includes(id) ? `    question: What is ${id}?\n` : ''))
    .join('')}`,
  text: `# Lab 7\n\n${recalled
    .map((id) => quote('Recall', id, `What do you remember of ${id}?`))
    .join('\n')}\n${ids.map((id, index) => section(id, index + 1)).join('\n')}
## What you take home

[CARD.md](CARD.md)

**Try this on your cluster.** It changes nothing.

## References

- KEP-1
`,
}

interface MadeLab extends Partial<Pick<LabFiles, 'folder' | 'solution' | 'unloadable'>> {
  definition?: string | undefined
  text?: string | undefined
  source?: string | undefined
  spec?: string | undefined
  card?: string | undefined
  deck?: string | undefined
}

export function madeLab(lab: MadeLab = {}): LabFiles {
  const made = {
    folder: '07-made',
    ...good,
    source: 'written',
    spec: 'written',
    card: 'written',
    deck: 'About 10 minutes.',
    unloadable: [],
    ...lab,
  }
  const paths = filesOfLab(made.folder)
  const texts = [
    [paths.definition, made.definition],
    [paths.text, made.text],
    [paths.solution, made.source],
    [paths.spec, made.spec],
    [cardOf(made.folder), made.card],
    [deckOf(made.folder), made.deck],
  ].filter(([, text]) => text !== undefined)
  return { solution: solution({}), ...made, sources: Object.fromEntries(texts) }
}

export function solution(steps: LabSolution['steps']): LabSolution {
  const all: LabSolution['steps'] = Object.fromEntries(
    ids.map((id) => [id, { commands: ['make web'] }]),
  )
  return { steps: { ...all, ...steps }, reset: nothing }
}

export const goodCourse = (lab: MadeLab = {}, course: Partial<CourseFiles> = {}): CourseFiles => ({
  labs: [madeLab(lab)],
  claims: `A1: [${ids.map((id) => `7/${id}`).join(', ')}]`,
  makefile: 'web: $(NODE_MODULES) ## Deploy\ncheck-%: FORCE\nanswer:\n',
  readme: '| [7 · made](labs/07-made/README.md) | nothing | 10 |',
  instructors: '',
  curriculum: '',
  exists: () => true,
  ...course,
})
