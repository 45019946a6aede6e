import type { ButtonHTMLAttributes, ComponentChildren } from 'preact'
import { useRef, useState } from 'preact/hooks'

/** A button that acts on a click; one that sends a form is a plain `button`. */
export const Button = (props: ButtonHTMLAttributes) => <button type="button" {...props} />

/** A text of the course, in which commands are between backticks. */
export const CodeText = ({ text }: { text: string }) => (
  <>
    {text
      .split(/`([^`]+)`/)
      .map((part, index) => (index % 2 === 1 ? <code key={`${index}`}>{part}</code> : part))}
  </>
)

interface FormProps {
  class?: string
  send(): unknown
  children: ComponentChildren
}

/** A form that the page itself sends, and not again until the reply has come. */
export function Form({ class: style, send, children }: FormProps) {
  const isSent = useRef(false)
  const [isWaiting, setWaiting] = useState(false)
  const onSubmit = async (event: Event) => {
    event.preventDefault()
    if (isSent.current) return
    isSent.current = true
    setWaiting(true)
    try {
      await send()
    } finally {
      isSent.current = false
      setWaiting(false)
    }
  }
  return (
    <form class={style} onSubmit={onSubmit} aria-busy={isWaiting}>
      {children}
    </form>
  )
}

interface SelectProps {
  label: ComponentChildren
  value: string
  /** Values, each with the text that it is shown by if that is another one. */
  options: readonly (string | readonly [value: string, text: string])[]
  choose(value: string): void
}

/** A list of which one is chosen, with its label. */
export function Select({ label, value, options, choose }: SelectProps) {
  return (
    <label>
      {label}{' '}
      <select value={value} onChange={({ currentTarget }) => choose(currentTarget.value)}>
        {options.map((option) => {
          const [own, text] = typeof option === 'string' ? [option, option] : option
          return (
            <option key={own} value={own}>
              {text}
            </option>
          )
        })}
      </select>
    </label>
  )
}

/** A button that asks before it acts, until Cancel, Escape, or the focus leaves it. */
export function Sure({
  label,
  sure,
  onSure,
}: {
  label: string
  sure: string
  onSure: () => unknown
}) {
  const [isAsked, setAsked] = useState(false)
  return (
    <fieldset
      class="sure"
      aria-label={label}
      onFocusOut={({ currentTarget, relatedTarget }) => {
        if (!currentTarget.contains(relatedTarget as Node | null)) setAsked(false)
      }}
      onKeyDown={({ key }) => key === 'Escape' && setAsked(false)}
    >
      <Button
        class={isAsked ? 'danger' : ''}
        onClick={() => {
          if (isAsked) onSure()
          setAsked(!isAsked)
        }}
      >
        {isAsked ? sure : label}
      </Button>
      {isAsked && <Button onClick={() => setAsked(false)}>Cancel</Button>}
    </fieldset>
  )
}
