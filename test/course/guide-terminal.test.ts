import { afterEach, expect, test, vi } from 'vitest'
import { startGuide } from '../../course/guide/guide-state.ts'
import { ownTerminal } from '../../course/guide/guide-terminal.ts'
import { startProgress } from '../../course/lab-progress.ts'
import { readLab } from '../../grading/lab-definition.ts'

afterEach(() => {
  vi.unstubAllEnvs()
  vi.restoreAllMocks()
})

test('a guide of plain lines prints nothing after the learner has quit, although a check ends then', () => {
  vi.stubEnv('TERM', 'dumb')
  const print = vi.spyOn(console, 'log').mockImplementation(() => {})
  const definition = readLab(2)
  const steps = definition.steps.map((step) => ({
    definition: step,
    task: '',
    seen: '',
    hints: [],
    solution: [],
  }))
  const state = startGuide(
    startProgress({ definition, intro: '', outro: '', card: '', steps }, undefined, new Map()),
  )
  const terminal = ownTerminal(() => {})
  terminal.take()
  terminal.show({ ...state, place: 'end', summary: 'First.' })
  terminal.release()
  expect(print.mock.calls.flat()).toContain('First.')
  print.mockClear()
  terminal.show({ ...state, place: 'end', summary: 'Second.' })
  expect(print).not.toHaveBeenCalled()
})
