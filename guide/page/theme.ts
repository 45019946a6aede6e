import { DARK, PALETTE, paletteStyle } from '../../slides/build/style.ts'

export type Theme = 'system' | 'light' | 'dark'

const KEY = 'guide-theme'

/** Makes both palettes known to the page's style sheet. */
export function installPalettes(): void {
  const sheet = new CSSStyleSheet()
  sheet.replaceSync(
    [
      paletteStyle(PALETTE),
      `@media (prefers-color-scheme: dark) { ${paletteStyle(DARK, ':root:not([data-theme="light"])')} }`,
      paletteStyle(DARK, ':root[data-theme="dark"]'),
    ].join('\n'),
  )
  document.adoptedStyleSheets = [sheet]
  applyTheme(savedTheme())
}

/** The theme that was chosen in this browser. */
export function savedTheme(): Theme {
  const saved = localStorage.getItem(KEY)
  return saved === 'light' || saved === 'dark' ? saved : 'system'
}

/** Shows the page in a theme, and remembers it in this browser. */
export function applyTheme(theme: Theme): Theme {
  const root = document.documentElement
  if (theme === 'system') {
    localStorage.removeItem(KEY)
    delete root.dataset.theme
  } else {
    localStorage.setItem(KEY, theme)
    root.dataset.theme = theme
  }
  return theme
}
