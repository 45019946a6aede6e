import { type Colour, PALETTE, paletteStyle } from '../../slides/build/palette.ts'

/** The slides' colours for a dark window; test/guide/contrast.test.ts holds both to the same contrast. */
export const DARK: Readonly<Record<Colour, string>> = {
  paper: '#14191f',
  ink: '#e4eaf0',
  soft: '#a9b6c2',
  link: '#7db8f5',
  rule: '#36424e',
  shade: '#1c232b',
  night: '#0b1015',
  moon: '#f1f6fa',
  dim: '#b9cbd9',
  box: '#25303b',
  line: '#8495a5',
  path: '#7db8f5',
  onpath: '#0b1015',
  strong: '#6fce9f',
  onstrong: '#0b1015',
  good: '#16382a',
  ongood: '#a5e6c4',
  bad: '#47211e',
  onbad: '#ffb9b0',
  badline: '#f0776c',
  faint: '#1a2027',
  onfaint: '#98a6b3',
}

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
export function applyTheme(theme: Theme): void {
  const root = document.documentElement
  if (theme === 'system') {
    localStorage.removeItem(KEY)
    delete root.dataset.theme
  } else {
    localStorage.setItem(KEY, theme)
    root.dataset.theme = theme
  }
}
