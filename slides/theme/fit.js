// Enlarges the text of each slide as far as it fits, without breaking a line of commands, which could no longer be copied.
;(() => {
  const SCALES = [1.6, 1.5, 1.4, 1.3, 1.2, 1.1, 1]
  const SPARE = 24 / 720

  function isBroken(pre) {
    const { lineHeight, paddingTop } = getComputedStyle(pre)
    const lines = (pre.clientHeight - 2 * parseFloat(paddingTop)) / parseFloat(lineHeight)
    return Math.round(lines) > pre.textContent.split('\n').length
  }

  function fits(sheet, content, heading) {
    const { paddingTop, paddingBottom, height } = getComputedStyle(sheet)
    const room =
      parseFloat(height) * (1 - SPARE) - parseFloat(paddingTop) - parseFloat(paddingBottom)
    const title =
      heading.getBoundingClientRect().height + parseFloat(getComputedStyle(heading).marginBottom)
    const isTooWide = [...content.querySelectorAll('table')].some(
      (table) => table.clientWidth > content.clientWidth,
    )
    return (
      title + content.getBoundingClientRect().height <= room &&
      !isTooWide &&
      ![...content.querySelectorAll('pre')].some(isBroken)
    )
  }

  function fitAll() {
    if (innerWidth < 720) return
    for (const slide of document.querySelectorAll('.slide:not(.cover)')) {
      const [sheet, content, heading] = ['.sheet', '.content', 'h2'].map((part) =>
        slide.querySelector(part),
      )
      if (sheet.clientHeight === 0 || content.style.getPropertyValue('--scale')) continue
      SCALES.find((scale) => {
        content.style.setProperty('--scale', scale)
        return fits(sheet, content, heading)
      })
    }
  }

  fitAll()
  // Other fonts were measured until those of the page are loaded.
  document.fonts.load('1em "Deck Mono"').then(() => {
    for (const content of document.querySelectorAll('.content'))
      content.style.removeProperty('--scale')
    fitAll()
  })
  addEventListener('resize', fitAll)
})()
