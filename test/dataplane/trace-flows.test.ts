import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { parsePacket, tracePacket } from '../../dataplane/trace.ts'
import { RECORDINGS, recordedNode } from './recordings.ts'

const flows = z
  .array(
    z.object({
      mode: z.string(),
      version: z.string(),
      scenario: z.string(),
      from: z.string(),
      to: z.string(),
      verdict: z.string(),
      outcomes: z.array(z.string()),
      masquerade: z.boolean().nullish(),
    }),
  )
  .parse(JSON.parse(readFileSync(join(RECORDINGS, 'flows.json'), 'utf8')))

describe('a trace has the destinations of real packets', () => {
  it.each(flows)('$mode $scenario: $from → $to', (flow) => {
    const { state, faults } = recordedNode(`${flow.version}/${flow.mode}/${flow.scenario}`)
    expect(faults).toEqual([])
    const trace = tracePacket(state, parsePacket(flow.from, flow.to))
    expect(trace.verdict).toBe(flow.verdict)
    expect(trace.outcomes.map(({ to }) => to).sort()).toEqual([...flow.outcomes].sort())
    expect(trace.lost.length > 0).toBe(flow.outcomes.length === 0)
    if (flow.outcomes.length > 0) {
      expect(trace.outcomes.reduce((sum, { probability }) => sum + probability, 0)).toBeCloseTo(1, 9)
    }
    if (typeof flow.masquerade === 'boolean') {
      for (const outcome of trace.outcomes) expect(outcome.masquerade).toBe(flow.masquerade)
    }
  })
})
