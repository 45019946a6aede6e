// Keys and the speaker's view. Without this script the page is all slides, one below the other.
;(() => {
  const slides = [...document.querySelectorAll('.slide')]
  const body = document.body
  const presenter = location.hash.startsWith('#presenter')
  let at = slideOf(location.hash)
  let desk = presenter ? window.opener : undefined

  function slideOf(hash) {
    const number = Number(/\d+$/.exec(hash)?.[0] ?? 1)
    return Math.min(Math.max(number, 1), slides.length) - 1
  }

  function go(index, told = false) {
    at = Math.min(Math.max(index, 0), slides.length - 1)
    for (const [number, slide] of slides.entries()) {
      slide.classList.toggle('now', number === at)
      slide.classList.toggle('next', number === at + 1)
    }
    history.replaceState(null, '', presenter ? `#presenter-${at + 1}` : `#${at + 1}`)
    if (!body.classList.contains('show') && !presenter) slides[at].scrollIntoView()
    if (presenter) showNotes()
    // A page opened from a folder has no origin to name, so the receiver looks at who is speaking instead.
    if (!told) desk?.postMessage({ slide: at }, '*')
  }

  function show(on) {
    body.classList.toggle('show', on)
    go(at)
  }

  function openDesk() {
    desk =
      window.open(`${location.pathname}#presenter-${at + 1}`, 'desk', 'width=1100,height=760') ??
      undefined
  }

  function showNotes() {
    const said = slides[at].querySelector('.notes')?.cloneNode(true)
    said?.querySelector('summary')?.remove()
    document.querySelector('.said').replaceChildren(...(said ? said.childNodes : []))
  }

  function setDesk() {
    body.classList.add('presenter')
    const panel = document.createElement('div')
    panel.className = 'desk'
    panel.innerHTML = '<div class="said" tabindex="0"></div><div class="time"></div>'
    body.append(panel)
    const began = Date.now()
    const tick = () => {
      const seconds = Math.floor((Date.now() - began) / 1000)
      const spent = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`
      panel.querySelector('.time').textContent = `${at + 1} / ${slides.length} · ${spent}`
    }
    setInterval(tick, 1000)
    tick()
  }

  const keys = {
    ArrowRight: () => go(at + 1),
    ArrowDown: () => go(at + 1),
    PageDown: () => go(at + 1),
    ' ': () => go(at + 1),
    ArrowLeft: () => go(at - 1),
    ArrowUp: () => go(at - 1),
    PageUp: () => go(at - 1),
    Home: () => go(0),
    End: () => go(slides.length - 1),
    Enter: () => show(true),
    Escape: () => show(false),
    p: openDesk,
    f: () =>
      document.fullscreenElement
        ? document.exitFullscreen()
        : document.documentElement.requestFullscreen(),
  }

  addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    if (presenter && ['p', 'Escape', 'Enter'].includes(event.key)) return
    // On the page of all slides, keys that scroll stay with the reader.
    const scrolling = !presenter && !body.classList.contains('show')
    if (scrolling && !['ArrowRight', 'ArrowLeft', 'Enter', 'p', 'f'].includes(event.key)) return
    if (event.target.closest?.('a, summary, .said') && [' ', 'Enter'].includes(event.key)) return
    const act = keys[event.key]
    if (!act) return
    event.preventDefault()
    act()
  })
  addEventListener('message', (event) => {
    if (desk && event.source === desk && Number.isInteger(event.data?.slide))
      go(event.data.slide, true)
  })
  addEventListener('hashchange', () => go(slideOf(location.hash)))

  if (presenter) setDesk()
  if (presenter || location.hash !== '#all') {
    if (!presenter && innerWidth >= 900) body.classList.add('show')
    if (presenter || innerWidth >= 900 || location.hash) go(at)
  }
})()
