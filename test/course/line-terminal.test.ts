import { afterEach, expect, test, vi } from 'vitest'
import { startGuide } from '../../course/guide/guide-state.ts'
import { LineTerminal } from '../../course/guide/line-terminal.ts'
import { startProgress } from '../../course/lab-progress.ts'
import { readLab } from '../../grading/lab-definition.ts'

afterEach(() => {
  vi.unstubAllEnvs()
  vi.restoreAllMocks()
})

const definition = readLab(2)
const steps = definition.steps.map((step) => ({
  definition: step,
  task: '',
  seen: '',
  hints: [],
  solution: [],
}))
const lab = { definition, intro: '', outro: '', card: '', steps }
const state = startGuide(startProgress(lab, undefined, new Map()))

function openTerminal() {
  vi.stubEnv('TERM', 'dumb')
  const log = vi.spyOn(console, 'log').mockImplementation(() => {})
  const terminal = new LineTerminal(() => {})
  terminal.open()
  return { terminal, printed: () => log.mock.calls.flat() }
}

test('prints the status when it changes, and again below other lines', () => {
  const { terminal, printed } = openTerminal()
  terminal.showStatus(state)
  terminal.showStatus(state)
  expect(printed()).toEqual(['Press Enter to start.'])
  terminal.showStatus({ ...state, place: 'step' })
  expect(printed().at(-1)).toBe('… Reading the nodes …')
  terminal.print({ parts: [{ text: 'A line.' }] })
  terminal.showStatus({ ...state, place: 'step' })
  expect(printed().slice(-2)).toEqual(['A line.', '… Reading the nodes …'])
  expect(printed().join('')).not.toContain('\x1b')
  terminal.close()
})

test('prints nothing after the learner has quit, although a check ends then', () => {
  const { terminal, printed } = openTerminal()
  terminal.print({ markdown: 'First.' })
  terminal.close()
  terminal.print({ markdown: 'Second.' })
  terminal.showStatus(state)
  expect(printed()).toEqual(['First.', ''])
})
