import type { Block, RunLine, RunsPush } from '../protocol.ts'
import { Ask } from './ask.tsx'
import { performAction } from './connection.ts'
import { Button } from './controls.tsx'
import { now, say } from './store.ts'
import { runOnHost } from './terminal.ts'

interface BlocksProps {
  blocks: readonly Block[]
  /** Where the text is, as `2/web/task`: with its index, a block's name among the runs. */
  place: string
}

/**
 * A part of a lab's text. Its HTML was made by the server from the lab's own Markdown, in which raw
 * HTML is text.
 */
export function Blocks({ blocks, place }: BlocksProps) {
  return (
    <>
      {blocks.map((block, index) =>
        block.kind === 'fence' ? (
          <FenceView
            key={`${index}`}
            text={block.text}
            place={block.run ? `${place}/${index}` : undefined}
          />
        ) : block.kind === 'ask' ? (
          <Ask key={`${index}`} asked={block} />
        ) : (
          <div key={`${index}`} class="prose" dangerouslySetInnerHTML={{ __html: block.html }} />
        ),
      )}
    </>
  )
}

/** How each state of a line is shown. */
const STATES: Record<
  RunLine['state'],
  { sign: string; tone: string; tell(line: RunLine): string }
> = {
  queued: { sign: '·', tone: 'soft', tell: () => 'waits for its turn' },
  running: { sign: '…', tone: 'soft', tell: () => 'is running' },
  succeeded: { sign: '✓', tone: 'good', tell: () => 'succeeded' },
  failed: { sign: '✗', tone: 'bad', tell: ({ status }) => `failed with status ${status}` },
  ended: { sign: '–', tone: 'soft', tell: () => 'ended; its shell does not report how' },
  'not run': { sign: '○', tone: 'soft', tell: () => 'was not run' },
}

/** Commands or output, to be copied and, if `place` names them, typed into a terminal. */
export function FenceView({ text, place }: { text: string; place?: string | undefined }) {
  const run: RunsPush[string] | undefined = place === undefined ? undefined : now().runs?.[place]
  const first = text.split('\n')[0]
  return (
    <div class="fence">
      {/* Before the lines, which flow around them. */}
      <div class="fence-buttons">
        {place !== undefined && <RunButton place={place} text={text} lines={run?.lines ?? []} />}
        <Button
          onClick={() =>
            navigator.clipboard.writeText(text).then(
              () => say('Copied'),
              () => say('The browser did not allow copying'),
            )
          }
        >
          Copy<span class="hidden">: {first}</span>
        </Button>
      </div>
      {run ? (
        <ol class="run-lines">
          {run.lines.map((line, index) => {
            const { sign, tone, tell } = STATES[line.state]
            return (
              <li
                key={`${index}`}
                class={`${tone} ${line.state === 'running' ? 'running' : ''}`}
                title={tell(line)}
              >
                <span class="sign" aria-hidden="true">
                  {sign}
                </span>
                <code>
                  <CommandLine text={line.text} />
                </code>
                <span class="hidden">: {tell(line)}</span>
                {line.state === 'failed' && <small>status {line.status}</small>}
              </li>
            )
          })}
        </ol>
      ) : (
        <pre>
          {text.split('\n').map((line, index, lines) => (
            <span
              key={`${index}`}
              class={
                place !== undefined && line !== '' && !lines[index - 1]?.endsWith('\\')
                  ? 'line typed'
                  : 'line'
              }
            >
              <CommandLine text={line} />
              {'\n'}
            </span>
          ))}
        </pre>
      )}
    </div>
  )
}

/**
 * A line in which a word that does not fit goes to the next row whole: no path or option is broken
 * at its hyphen.
 */
const CommandLine = ({ text }: { text: string }) => (
  <>
    {text.split(/(?<= )(?=\S)/).map((word, index) => (
      <span key={`${index}`} class="word">
        {word}
      </span>
    ))}
  </>
)

/** Run, and while it waits or runs what ends it. */
function RunButton({
  place,
  text,
  lines,
}: {
  place: string
  text: string
  lines: readonly RunLine[]
}) {
  const has = (state: RunLine['state']) => lines.some((line) => line.state === state)
  const isOpen = has('queued') || has('running')
  const [first, ...more] = text.split('\n')
  const name = (
    <span class="hidden">
      : {first}
      {more.length > 0 ? ` and ${more.length} more` : ''}
    </span>
  )
  if (isOpen)
    return (
      <Button class="run" onClick={() => void performAction('cancel-run', { key: place })}>
        {has('running') ? 'Running … Stop' : 'Queued … Cancel'}
        {name}
      </Button>
    )
  return (
    <Button class="run" onClick={() => void runOnHost(place, text)}>
      {lines.length === 0 ? 'Run' : has('failed') || has('not run') ? '✗ Run again' : '✓ Run again'}
      {name}
    </Button>
  )
}
