// Renders the guide's blocks and its status as lines. Pure functions.

import { type GuideBlock, stepStatusLine } from './guide-blocks.ts'
import type { GuideState } from './guide-state.ts'
import { layoutMarkdown, layoutParts, type Style } from './terminal-text.ts'

/** The lines of a block. Prose is wrapped at `width`; commands and output of nodes are not. */
export function blockLines(
  { title, markdown, parts = [] }: GuideBlock,
  width: number,
  style: Style,
): string[] {
  return [
    ...(title === undefined ? [] : ['', style.strong(title), '']),
    ...(markdown === undefined ? [] : [...layoutMarkdown(markdown, width, style), '']),
    ...layoutParts(parts, width, style),
  ]
}

/**
 * The line with the state of the current step, or what the next line of the learner is taken for.
 */
export function statusLine(state: GuideState): string {
  if (state.asks === 'step') return 'Type the number of a step, or press Enter to stay here.'
  if (state.asks === 'answer') return 'Type your answer, or press Enter to give none.'
  if (state.place === 'intro') return 'Press Enter to start.'
  if (state.place === 'end') return 'Press Enter to quit the guide, b to go back.'
  const { mark, text } = stepStatusLine(state)
  const isReady = state.isExplained && !text.includes('Press Enter to continue')
  return `${mark} ${text}${isReady && state.busy === undefined ? '. Press Enter to continue.' : ''}`
}
