import { useState } from 'preact/hooks'
import type { Block } from '../protocol.ts'
import { Button } from './controls.tsx'
import { say } from './store.ts'
import { runOnHost } from './terminal.ts'

/** A part of a lab's text. Its HTML was made by the server from the lab's own Markdown, in which raw HTML is text. */
export function Blocks({ blocks }: { blocks: readonly Block[] }) {
  return (
    <>
      {blocks.map((block, index) =>
        block.kind === 'fence' ? (
          <Fence key={`${index}`} text={block.text} run={block.run} />
        ) : (
          <div key={`${index}`} class="prose" dangerouslySetInnerHTML={{ __html: block.html }} />
        ),
      )}
    </>
  )
}

/** Commands or output, to be copied and, if they are commands, typed into a terminal. */
export function Fence({ text, run }: { text: string; run: boolean }) {
  const [state, setState] = useState<'idle' | 'running' | 'done'>('idle')
  const lines = text.split('\n').length
  return (
    <div class="fence">
      <pre>{text}</pre>
      <div class="fence-buttons">
        {run && (
          <Button
            class="run"
            aria-disabled={state === 'running'}
            onClick={async () => {
              if (state === 'running') return
              setState('running')
              await runOnHost(text)
              setState('done')
            }}
          >
            {state === 'running' ? 'Running …' : state === 'done' ? '✓ Run again' : 'Run'}
            <span class="hidden">
              : {text.split('\n')[0]}
              {lines > 1 ? ` and ${lines - 1} more` : ''}
            </span>
          </Button>
        )}
        <Button
          onClick={() =>
            navigator.clipboard.writeText(text).then(
              () => say('Copied'),
              () => say('The browser did not allow copying'),
            )
          }
        >
          Copy<span class="hidden">: {text.split('\n')[0]}</span>
        </Button>
      </div>
    </div>
  )
}
