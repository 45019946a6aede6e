/** Whether no element that can be seen has the focus. */
export function isFocusLost(): boolean {
  const { activeElement, body } = document
  return activeElement === null || activeElement === body || !activeElement.checkVisibility()
}

/**
 * Whenever the focused element is removed, what contained it gets the focus, so that the keyboard
 * goes on from there.
 */
export function keepFocus(page: HTMLElement): void {
  let last: EventTarget | null = null
  page.addEventListener('focusin', ({ target }) => {
    last = target
  })
  new MutationObserver((records) => {
    if (!isFocusLost()) return
    const place = records.find(({ removedNodes }) =>
      [...removedNodes].some((node) => node.contains(last as Node)),
    )
    if (!(place?.target instanceof Element)) return
    const around =
      place.target.closest<HTMLElement>('[tabindex]') ?? page.querySelector<HTMLElement>('.text')
    around?.focus()
  }).observe(page, { childList: true, subtree: true })
}
