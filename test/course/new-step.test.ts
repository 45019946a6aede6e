import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { transform } from 'esbuild'
import { expect, test } from 'vitest'
import { parseLabText } from '../../course/lab-text.ts'
import { claimSentence, claimsOfLab, nextClaim } from '../../course/lint/claim-step.ts'
import { CLAIM_FILES, filesOfLab, readCourse } from '../../course/lint/course-files.ts'
import { lintCourse } from '../../course/lint/lint-course.ts'
import {
  faultsOfNewStep,
  filesOfStep,
  isAboutMinutes,
  lintPlaced as lintAll,
  tablesIn,
  withNewStep,
} from '../../course/lint/new-step.ts'
import { type NewStepAsks, stepDraft, unwrittenIn } from '../../course/lint/step-draft.ts'
import { listLabs, neededSteps, parseLab } from '../../grading/lab-definition.ts'
import { projectRoot } from '../../host/layout.ts'

import { fill, ID, withStep } from './made-step.ts'

/** Minutes apart, which the tests about minutes are for. */
const lintPlaced = (...args: Parameters<typeof lintAll>) =>
  lintAll(...args).filter((one) => !isAboutMinutes(one))

test.each([
  ['01-iptables', 'chains'],
  ['02-ipvs', 'pod-to-service'],
  ['02-ipvs', 'incident'],
  ['03-from-outside', 'web'],
])('a step of %s after %s is in each file, at its place', async (folder, after) => {
  const { definition, text, spec, solution } = filesOfLab(folder)
  const { changed } = withStep(folder, after)
  const ids = parseLab(changed[definition] ?? '', definition).steps.map(({ id }) => id)
  expect(ids[ids.indexOf(after) + 1]).toBe('made-here')
  expect([...parseLabText(changed[text] ?? '', text).sections.keys()]).toEqual(ids)
  for (const file of [spec, solution]) {
    await expect(transform(changed[file] ?? '', { loader: 'ts' })).resolves.toBeTruthy()
    expect(changed[file]?.match(/'made-here'[,:]/g)).toHaveLength(1)
  }
  expect(changed[spec]).toContain(`import { madeHereHolds } from './${folder}/made-here.ts'`)
})

test('a draft says what is to be written, and names the claim that it must prove', () => {
  const { begun } = withStep('05-exposure', 'exposed', { asks: 'question' })
  const unwritten = unwrittenIn(begun, 'labs/05-exposure/made-here.step.md')
  expect(unwritten.length).toBeGreaterThan(10)
  const place = {
    folder: '05-exposure',
    needs: [],
    beginsClaim: false,
    breaks: true,
    refuses: true,
    isByStep: true,
    answers: {},
  }
  const nothingKnown = stepDraft({ after: 'exposed', id: ID }, place)
  expect(nothingKnown).toContain('\nclaim: ✎ as A7\n')
})

test.each([undefined, 'predict', 'question'] as const)(
  'once a draft with ASK=%s is written, nothing is left to be written',
  async (asks) => {
    const course = await readCourse()
    expect(lintCourse(course)).toEqual([])
    for (const [folder, after] of [
      ['02-ipvs', 'sets'],
      ['05-exposure', 'exposed'],
    ] as const) {
      const { draft, changed } = withStep(folder, after, { asks })
      expect(lintPlaced(course, draft, folder, changed)).toEqual([])
      const { spec, solution, module, curriculum } = filesOfStep(folder, ID)
      expect(changed[spec]).toContain(
        `step('made-here', madeHereHolds${asks ? `, { ${asks}: madeHereTruth }` : ''})`,
      )
      const word = {
        predict: /(?:predictAt|prediction)\('made-here'/,
        question: /answer\('made-here'/,
      }
      if (asks) expect(changed[solution]).toMatch(word[asks])
      expect(changed[solution]).toContain("    'made-here': typing(")
      expect(changed[curriculum]).toContain(`${Number(folder.slice(0, 2))}/made-here\``)
      expect(changed[module]).toBeUndefined()
      expect(Object.values(changed).filter((text) => text.includes('✎'))).toEqual([])
    }
  },
)

test('what is asked is asked in the text, with its choices, at its place', () => {
  const choices = (asks: NewStepAsks) => (draft: string) =>
    draft.replace(
      `\n${asks}: Which of the two is it here?`,
      `\n${asks}:\n  ask: Which of the two is it here?\n  # In this order.\n  choices: [one, 2]`,
    )
  const { text, definition } = filesOfLab('05-exposure')
  const placeOf = (asks: NewStepAsks) => {
    const { changed } = withStep('05-exposure', 'exposed', { asks }, choices(asks))
    const { steps } = parseLab(changed[definition] ?? '', definition)
    expect(steps.find(({ id }) => id === ID)?.[asks]?.choices).toEqual(['one', '2'])
    expect(changed[definition]).not.toContain('In this order')
    const section = changed[text]?.split('<!-- step: made-here -->')[1]?.split('\n## ')[0] ?? ''
    const kind = asks === 'predict' ? 'Predict' : 'Question'
    const quote = `> **${kind}.** Which of the two is it here?\n> \`one\` · \`2\`\n> \`make answer LAB=5 Q=made-here A='…'\``
    expect(section).toContain(quote)
    return [section.indexOf('> **'), section.indexOf('```bash'), section.indexOf('**What you')]
  }
  const sorted = ([quote = 0, fence = 0, seen = 0]: number[]) => [quote < fence, quote < seen]
  expect(sorted(placeOf('predict'))).toEqual([true, true])
  expect(sorted(placeOf('question'))).toEqual([false, true])
})

test('a long question is wrapped as other lines of the text', () => {
  const { text } = filesOfLab('05-exposure')
  const long = `Which of these ${'long '.repeat(40)}words is it?`
  const { changed } = withStep('05-exposure', 'exposed', { asks: 'question' }, (draft) =>
    draft.replace('Which of the two is it here?', long),
  )
  const section = changed[text]?.split('<!-- step: made-here -->')[1] ?? ''
  const quote = section.match(/^> .*$/gm)?.slice(0, 2) ?? []
  expect(quote.map((line) => line.length > 100 && line.length <= 116)).toEqual([true, true])
  expect(`${quote.map((line) => line.slice(2)).join(' ')}`).toContain(
    '**Question.** Which of these',
  )
})

test('its points are taken from the steps that have most', () => {
  const { definition } = filesOfLab('05-exposure')
  const { lab, changed } = withStep('05-exposure', 'exposed', {}, (draft) =>
    draft.replace('points: 3', 'points: 6'),
  )
  const { steps } = parseLab(changed[definition] ?? '', definition)
  expect(steps.find(({ id }) => id === ID)?.points).toBe(6)
  expect(steps.reduce((sum, { points }) => sum + points, 0)).toBe(100)
  const most = Math.max(...lab.steps.map(({ points }) => points))
  expect(Math.max(...steps.map(({ points }) => points))).toBeLessThan(most)
})

test('a claim of the next number in its part is begun, with the sentence of the draft', async () => {
  const course = await readCourse()
  const claims = course.claims.match(/^C\d+/gm) ?? []
  const claim = `C${claims.length + 1}`
  const { draft, changed } = withStep('03-from-outside', 'uneven', { claim, beginsClaim: true })
  expect(lintPlaced(course, draft, '03-from-outside', changed)).toEqual([])
  expect(changed['labs/CURRICULUM.md']).toContain(
    `\n| ${claim} | What is claimed | \`3/made-here\` |\n`,
  )
  expect(changed['labs/claims.yaml']).toContain(`\n${claim}: [3/made-here]\n`)
  expect(claimSentence(changed['labs/CURRICULUM.md'] ?? '', claim)).toBe(
    '"What is claimed", by 3/made-here.',
  )
})

test('the claims of a lab are listed with their sentences, and the next ids of their parts', async () => {
  const { claims, curriculum } = await readCourse()
  const listed = claimsOfLab({ claims, curriculum }, 3)
  expect(listed).toContain('C10: Pod anti-affinity evens the load out.')
  const count = claims.match(/^C\d+/gm)?.length ?? 0
  expect(listed.at(-1)).toBe(`C${count + 1}: a new one`)
  expect(listed.every((line) => /^[A-Z]\d+: ./.test(line))).toBe(true)
  expect(claimsOfLab({ claims, curriculum }, 99)).toEqual([])
})

test.each([
  ['no facts', () => 'only text', /begins with its facts between two lines "---"/],
  ['no YAML', (draft: string) => draft.replace('points:', '"points:'), /not YAML/],
  ['points in words', (draft: string) => draft.replace('points: 3', 'points: few'), /points/],
  ['no title', (draft: string) => draft.replace(/^title: .*\n/m, ''), /title/],
  [
    'two questions',
    (draft: string) => draft.replace('\npoints', '\npredict: Which one will it be?\npoints'),
    /asks twice/,
  ],
  ['no solution', (draft: string) => draft.replace('```ts\n', '```\n'), /its solution/],
  [
    'no place to ask',
    (draft: string) => draft.replace('<!-- asked -->', ''),
    /has no "<!-- asked -->" where its text asks/,
  ],
])('a draft with %s is refused with a sentence', (_, edit, sentence) => {
  expect(() => withStep('05-exposure', 'exposed', { asks: 'question' }, edit)).toThrow(sentence)
})

test('a prediction after commands is refused, and the minutes of a longer text are told', async () => {
  expect(() =>
    withStep('05-exposure', 'exposed', { asks: 'predict' }, (draft) =>
      draft.replace('<!-- asked -->\n\n', '').replace('**What you', '<!-- asked -->\n\n**What you'),
    ),
  ).toThrow('has "<!-- asked -->" after commands')
  const { draft, changed } = withStep('05-exposure', 'exposed', {}, (text) =>
    text.replace('\n**What you saw.**', `\n${'word '.repeat(900)}\n\n**What you saw.**`),
  )
  const told = lintAll(await readCourse(), draft, '05-exposure', changed).filter(isAboutMinutes)
  expect(told.map(({ text }) => text).join()).toMatch(/takes about \d+ minutes by the model/)
})

test('what the linter would refuse in the lab is known before it is there', async () => {
  const course = await readCourse()
  const edit = (draft: string) =>
    draft
      .replace('  - Look at the nodes.', '  - Run `make web` first.')
      .replace('needs: [stage]', 'needs: [nothing]')
      .replace('kubectl get service web', 'make wbe')
  const { draft, changed } = withStep('05-exposure', 'exposed', { asks: 'question' }, edit)
  const told = lintPlaced(course, draft, '05-exposure', changed).map(({ text }) => text)
  expect(told.join('\n')).toContain('needs "nothing", which does not precede it')
  const needed = withStep('05-exposure', 'exposed', { asks: 'question' }, (text) =>
    edit(text).replace('[nothing]', '[stage]'),
  )
  expect(lintPlaced(course, needed.draft, '05-exposure', needed.changed)).toEqual([
    expect.objectContaining({
      text: 'the first hint of step "made-here" must not show a command.',
    }),
    expect.objectContaining({ text: '"make wbe" is not a target of the Makefile.' }),
  ])
})

test('the solution of a draft is in the table of solutions, and what it types is imported', async () => {
  const { solution } = filesOfLab('03-from-outside')
  const written = "typing(patchService('web', { spec: {} }), expose('np', 'NodePort')),\n"
  const { changed } = withStep('03-from-outside', 'uneven', {}, (draft) =>
    draft.replace(/typing\([\s\S]*?\n\)\n/, written),
  )
  const text = changed[solution] ?? ''
  expect(text).toContain(`    'made-here': ${written}`)
  await expect(transform(text, { loader: 'ts' })).resolves.toBeTruthy()
  const [, imported = ''] = /import \{([^}]*)\} from '\S*typed-commands.ts'/.exec(text) ?? []
  const names = imported.split(',').map((name) => name.trim())
  expect(names).toContain('patchService')
  // In a text it is no name.
  expect(names.filter((name) => name === 'web' || name === 'expose')).toHaveLength(2)
  expect(names).not.toContain('apply')
})

test('the packet of a step is drawn as that of the step before, if the author leaves it', () => {
  const packets = (edit: (draft: string) => string) =>
    withStep('03-from-outside', 'node-port', {}, edit).changed['labs/packets.yaml']
  const line = /^3\/node-port: (.*)\n3\/made-here: (.*)\n3\//m
  const [, before, own] = line.exec(packets((draft) => draft) ?? '') ?? []
  expect(own).toBe(before)
  expect(packets((draft) => draft.replace(/^packet: .*\n/m, ''))).toBeUndefined()
  const block = packets((draft) =>
    draft.replace(/^packet: .*\n/m, 'packet:\n  from: pod\n  to: web\n  at: FORWARD\n'),
  )
  expect(block).toContain('\n3/made-here: { from: pod, to: web, at: FORWARD }\n')
  expect(() => packets((draft) => draft.replace(/^packet: .*$/m, 'packet: { from: pod }'))).toThrow(
    'is not a packet as labs/packets.yaml has them',
  )
  // The step before is about none.
  expect(withStep('03-from-outside', 'anti-affinity').begun).not.toContain('\npacket:')
})

test('lint names a draft that is not in its lab yet', async () => {
  const course = await readCourse()
  const { begun } = withStep('05-exposure', 'exposed')
  const complaints = (text: string) =>
    lintCourse({
      ...course,
      labs: course.labs.map((lab) =>
        lab.folder === '05-exposure'
          ? { ...lab, sources: { ...lab.sources, 'labs/05-exposure/made-here.step.md': text } }
          : lab,
      ),
    })
  expect(complaints(begun)).toHaveLength(1)
  expect(complaints(fill(begun))).toEqual([
    expect.objectContaining({ text: expect.stringContaining('make new-step LAB=5 ID=made-here') }),
  ])
})

test('what its author breaks has its place in the table', async () => {
  const { breakages } = filesOfStep('05-exposure', ID)
  const { changed } = withStep('05-exposure', 'exposed')
  expect(changed[breakages]).toMatch(
    /^ {2}'made-here': \{\n {4}"the set is emptied": "ipset flush X",\n {2}\},\n\}\)/m,
  )
  await expect(transform(changed[breakages] ?? '', { loader: 'ts' })).resolves.toBeTruthy()
  expect(changed[breakages]).not.toContain('neither')
  const asking = withStep('05-exposure', 'exposed', { asks: 'question' }).changed[breakages] ?? ''
  expect(asking).toMatch(/^ {2}'made-here': "neither",\n\}\n/m)
  await expect(transform(asking, { loader: 'ts' })).resolves.toBeTruthy()
  expect(withStep('06-scale', 'entries').changed).not.toHaveProperty('test/labs/lab-6-breakages.ts')
})

test('what is broken can be a call, a function or an object, as in the other entries', () => {
  const { breakages } = filesOfStep('03-from-outside', ID)
  const edit = (draft: string) =>
    draft.replace(
      '  the set is emptied: ipset flush X',
      [
        `  a call: "deleteRule('KUBE-SERVICES', '203.0.113.4')"`,
        '  a function: "({ web }) => deleteRule(web)"',
        `  an object: { at: control-plane, break: "raw('-I', '-s 1.2.3.4')", repair: iptables -F }`,
        '  no repair: { break: iptables -F }',
        '  shell: f() { ip route; }; f',
      ].join('\n'),
    )
  const { changed } = withStep('03-from-outside', 'uneven', {}, edit)
  const entry = changed[breakages]?.slice(changed[breakages].indexOf("'made-here': {")) ?? ''
  expect(entry.slice(0, entry.indexOf('\n  },'))).toBe(
    [
      "'made-here': {",
      `    "a call": deleteRule('KUBE-SERVICES', '203.0.113.4'),`,
      '    "a function": ({ web }) => deleteRule(web),',
      `    "an object": { at: "control-plane", break: raw('-I', '-s 1.2.3.4'), repair: "iptables -F" },`,
      '    "no repair": { break: "iptables -F" },',
      '    "shell": "f() { ip route; }; f",',
    ].join('\n'),
  )
})

test('a state that is taken back is broken where its lab is played step by step, or in a test of its own', () => {
  const moment = (draft: string) => draft.replace('\npoints:', '\nmoment: true\npoints:')
  const file = 'test/labs/lab-3.test.ts breaks a lab that is solved'
  expect(() => withStep('03-from-outside', 'uneven', {}, moment)).toThrow(file)
  const { begun, changed } = withStep('03-from-outside', 'uneven', {}, (draft) =>
    moment(draft).replace(/^broken:\n.*\n/m, ''),
  )
  expect(begun).toContain('(moment: true)')
  expect(changed['labs/03-from-outside/lab.yaml']).toContain('    moment: true\n    points: 3\n')
  const byStep = withStep('05-exposure', 'exposed', {}, moment)
  expect(byStep.begun).not.toContain('when the whole lab is solved')
  expect(byStep.changed['test/labs/lab-5-breakages.ts']).toContain('ipset flush X')
})

test('the step needs what the one before it needs, and its test plays all of that', () => {
  const { definition } = filesOfLab('05-exposure')
  const { changed } = withStep('05-exposure', 'gained-addresses')
  const later = parseLab(changed[definition] ?? '', definition)
  expect(neededSteps(later, ID)).toEqual(['stage', 'exposed', ID])
})

test('the card has a line more, and the deck a slide behind that of the step before', () => {
  const { card, deck } = filesOfStep('03-from-outside', ID)
  const { changed, sources } = withStep('03-from-outside', 'logged-client')
  const added = (file: string) => {
    const before = new Set(sources[file]?.split('\n'))
    return changed[file]?.split('\n').filter((line) => !before.has(line))
  }
  expect(added(card)).toEqual([`- What the step ${ID} leaves to take to work, in a line.`])
  expect(added(deck)).toEqual([
    `## What the step ${ID} shows`,
    `<!-- fence: 03-from-outside/${ID}#1 -->`,
    'What the participants expect, and what surprises them.',
  ])
  const shown: string[] = changed[deck]?.match(/fence: 03-from-outside\/[a-z-]+/g) ?? []
  expect(shown[shown.indexOf(`fence: 03-from-outside/${ID}`) - 1]).toBe(
    'fence: 03-from-outside/logged-client',
  )
  // Each slide is separated from the next one.
  expect(changed[deck]?.split('\n---\n')).toHaveLength(
    (sources[deck]?.split('\n---\n').length ?? 0) + 1,
  )
})

test('the check is given to the function of the step before it, such as one for a mode', () => {
  const { spec } = filesOfStep('01-iptables', ID)
  const { changed } = withStep('01-iptables', 'ports', { asks: 'predict' })
  expect(changed[spec]).toContain(
    "step('made-here', inIptablesMode(madeHereHolds), { predict: madeHereTruth })",
  )
})

test('every lab whose test has a table of breakages gets an entry', () => {
  const tables = listLabs().flatMap(({ folder }) => {
    const file = join(projectRoot, filesOfStep(folder, ID).breakages)
    return existsSync(file) ? [[folder, tablesIn(readFileSync(file, 'utf8')).breaks] as const] : []
  })
  // That of lab 4 is a list.
  expect(tables.filter(([, breaks]) => !breaks).map(([folder]) => folder)).toEqual(['04-lvs'])
  expect(tables.length).toBeGreaterThan(7)
})

test('a slide whose step before has none is placed after that of an earlier step', () => {
  const { deck } = filesOfStep('01-iptables', ID)
  const { changed, lab } = withStep('01-iptables', 'ports')
  const shown = [...(changed[deck] ?? '').matchAll(/fence: 01-iptables\/([a-z-]+)#/g)].map(
    ([, id = '']) => id,
  )
  const ids = lab.steps.map(({ id }) => id)
  const before = shown[shown.indexOf(ID) - 1] ?? ''
  expect(ids.indexOf(before)).toBeLessThanOrEqual(ids.indexOf('ports'))
  expect(ids.indexOf(before)).toBeGreaterThanOrEqual(0)
})

test('the card and the deck stay as they are if the draft says nothing for them', () => {
  const { card, deck } = filesOfStep('03-from-outside', ID)
  const { changed } = withStep('03-from-outside', 'logged-client', {}, (draft) =>
    draft.replace(/^card: .*\n/m, '').replace(/<!-- slide -->[\s\S]*/, ''),
  )
  expect(changed).not.toHaveProperty(card)
  expect(changed).not.toHaveProperty(deck)
})

test('a new claim without its sentence, and breakages that no table takes, are refused', () => {
  const claim = 'C99'
  expect(() => withStep('05-exposure', 'exposed', { claim })).toThrow('is not a claim of')
  const { claims } = CLAIM_FILES
  const next = `C${(readFileSync(join(projectRoot, claims), 'utf8').match(/^C\d+/gm)?.length ?? 0) + 1}`
  expect(() => withStep('05-exposure', 'exposed', { claim: next })).toThrow(
    `${next} is a new claim: write its sentence into the draft`,
  )
  const adding = (line: string) => (draft: string) =>
    draft.replace('\npoints:', `\n${line}\npoints:`)
  const file = 'test/labs/lab-6-breakages.ts has no table for it'
  expect(() => withStep('06-scale', 'entries', {}, adding('broken: { all: reboot }'))).toThrow(
    `The draft has broken:, but ${file}`,
  )
  expect(() => withStep('06-scale', 'entries', {}, adding('refused: none'))).toThrow(
    `The draft has refused:, but ${file}`,
  )
})

test('a letter alone begins the next claim of its part', async () => {
  const { claims } = await readCourse()
  const count = claims.match(/^C\d+/gm)?.length ?? 0
  expect(nextClaim(claims, 'C')).toBe(`C${count + 1}`)
  expect(nextClaim(claims, 'Z')).toBeUndefined()
  for (const other of ['', '[', 'C12']) expect(nextClaim(claims, other)).toBeUndefined()
})

test('a claim that does not exist and a check without a module are refused', () => {
  expect(() => withStep('05-exposure', 'exposed', { claim: 'Z9' })).toThrow(
    'CLAIM="Z9" is not a claim of labs/CURRICULUM.md',
  )
  const { draft, lab, sources } = withStep('05-exposure', 'exposed')
  const { module } = filesOfStep('05-exposure', ID)
  const renamed = { ...sources, [module]: 'export function otherName() {}' }
  expect(() => withNewStep(draft, '05-exposure', lab, renamed)).toThrow(
    'made-here.ts does not export madeHereHolds: keep the names with which it was begun.',
  )
  const { [module]: _, ...others } = sources
  expect(() => withNewStep(draft, '05-exposure', lab, others)).toThrow(
    'checks/05-exposure/made-here.ts is missing',
  )
})

test('sections are numbered again', () => {
  const { text } = filesOfLab('02-ipvs')
  const { changed } = withStep('02-ipvs', 'sets')
  const numbers = [...(changed[text] ?? '').matchAll(/^## (\d+)\. /gm)].map(([, n]) => Number(n))
  expect(numbers).toEqual(numbers.map((_, index) => index + 1))
})

test('bad input is refused with all faults at once', () => {
  const [first] = listLabs()
  const { definition } = filesOfLab(first?.folder ?? '')
  const lab = parseLab(readFileSync(join(projectRoot, definition), 'utf8'), definition)
  expect(faultsOfNewStep({ after: 'nowhere', id: 'Node Port' }, lab)).toEqual([
    expect.stringMatching(/^AFTER="nowhere" is not a step of the lab: its steps are mode, .*web/),
    expect.stringContaining('ID="Node Port" is not an id'),
  ])
  expect(faultsOfNewStep({ after: 'web', id: 'other', claim: 'C(' }, lab)).toEqual([
    expect.stringContaining('CLAIM="C(" is not the id of a claim'),
  ])
  expect(faultsOfNewStep({ after: 'web', id: 'web', asks: 'guess' }, lab)).toEqual([
    'ID="web" is a step of the lab already',
    expect.stringContaining('ASK="guess" is not how a step asks: use ASK=predict'),
  ])
})

test('a file that is written differently is left alone', () => {
  const { spec } = filesOfLab('02-ipvs')
  const { draft, lab, sources } = withStep('02-ipvs', 'sets')
  const other = { ...sources, [spec]: 'export default 1\n' }
  expect(() => withNewStep(draft, '02-ipvs', lab, other)).toThrow('has no part for step "sets"')
})
