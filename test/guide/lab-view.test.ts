import { expect, test } from 'vitest'
import { type GuideLab, startProgress } from '../../course/lab-progress.ts'
import { readLabText } from '../../course/lab-text.ts'
import type { StepOutcome } from '../../grading/failure.ts'
import { listLabs, readLab } from '../../grading/lab-definition.ts'
import { labContent, progressPush } from '../../guide/server/lab-view.ts'

/** A lab of which each step has the same text. */
function labOf(number: number, task = ''): GuideLab {
  const definition = readLab(number)
  const steps = definition.steps.map((step) => ({
    definition: step,
    task,
    seen: '',
    hints: [],
    solution: [],
  }))
  return { definition, intro: task, outro: '', card: '', steps }
}

/** What the page shows before the first step of a lab, as HTML. */
function introOf(number: number): string {
  const definition = readLab(number)
  const { intro, outro, card } = readLabText(definition.folder)
  const content = labContent({ definition, intro, outro, card, steps: [] }, [])
  return content.intro.map((block) => (block.kind === 'html' ? block.html : '')).join('\n')
}

test('the page introduces a lab in its own words, and keeps what is true of the lab alone', () => {
  const withGuide = listLabs().filter(({ number }) => number !== 8)
  expect(withGuide.length).toBeGreaterThan(6)
  for (const { number } of withGuide) {
    const html = introOf(number)
    expect(html, `lab ${number}`).toContain('This page checks each step while you work.')
    expect(html, `lab ${number}`).not.toMatch(
      /second terminal|read on here|make (hint|check|reset)/,
    )
    expect(html, `lab ${number}`).not.toMatch(/guides you\s+through/)
  }
  expect(introOf(1)).toContain('You make a <strong>prediction</strong> before the commands')
  expect(introOf(4)).toContain('The kernel needs IPVS')
  expect(introOf(5)).toMatch(/<em>Reset<\/em> starts over; it also deletes every rule/)
  // Of lab 8's commands the text names only the one that hands in, for which the page has no
  // button.
  expect([...introOf(8).matchAll(/<p>.*?<\/p>/gs)].join().match(/<code>make .*?<\/code>/g)).toEqual(
    ['<code>make submit LAB=8</code>'],
  )
  expect(introOf(6)).toContain('what a median is')
})

test('a step that only waits for a prediction or an answer has no finding: the text has the field', () => {
  const begun = startProgress(labOf(2), undefined, new Map())
  const detail = {
    expected: 'your prediction: how many?',
    actual: 'none yet',
    inspect: "make answer LAB=2 Q=sets A='…'",
  }
  const shown = (outcome: Partial<StepOutcome>) => {
    const outcomes = new Map([
      ['sets', { id: 'sets', verdict: 'failed', failure: detail, ...outcome } as const],
    ])
    const { steps } = progressPush({ ...begun, outcomes }, new Map(), {
      labs: [],
      minutes: 0,
      paused: false,
      busy: undefined,
      trouble: undefined,
      asOf: undefined,
    })
    return steps.find(({ id }) => id === 'sets')
  }
  for (const unanswered of ['prediction', 'answer'] as const)
    expect(
      shown({ verdict: 'not yet', unanswered, reason: `waits for your ${unanswered}` }),
    ).toMatchObject({ unanswered, finding: undefined, reason: undefined })
  expect(shown({})?.finding).toMatchObject({ expected: detail.expected })
})

test('a text names another step by its number in the list of steps', () => {
  const text =
    'As in\nstep `web`, and step `iptables-list`; step `unknown` and the Service `web` stay.'
  const { intro, steps } = labContent(labOf(2, text), [])
  const number = (id: string) => steps.findIndex((step) => step.id === id) + 1
  const html = `<p>As in\nstep ${number('web')}, and step ${number('iptables-list')}; step <code>unknown</code> and the Service <code>web</code> stay.</p>\n`
  expect(intro).toEqual([{ kind: 'html', html }])
  expect(steps[4]?.task).toEqual([{ kind: 'html', html }])
})
