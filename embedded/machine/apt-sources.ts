/** A file of apt's sources (sources.list(5)): its name decides the format, `.sources` (deb822) or one entry per line. */
export interface SourcesFile {
  name: string
  text: string
}

/**
 * The sources of a system, with another release of the same distribution instead of its own: the same servers, keys and
 * options, main packages only. Entries of other releases, updates and disabled ones are left out.
 * @param own names of the system's release, `bookworm` or `stable`
 */
export function sourcesOfRelease(
  files: readonly SourcesFile[],
  own: readonly string[],
  release: string,
): SourcesFile[] {
  return files.flatMap(({ name, text }) => {
    const entries = name.endsWith('.sources') ? stanzas(text, own, release) : lines(text, own, release)
    return entries.length > 0 ? [{ name, text: `${entries.join('\n\n')}\n` }] : []
  })
}

function stanzas(text: string, own: readonly string[], release: string): string[] {
  const uncommented = text.replace(/^#.*\n?/gm, '')
  return uncommented.split(/\n\s*\n/).flatMap((stanza) => {
    const words = (field: string) =>
      (new RegExp(`^${field}:(.*(?:\\n[ \\t].*)*)`, 'im').exec(stanza)?.[1] ?? '').trim().split(/\s+/)
    if (
      !words('Types').includes('deb') ||
      !words('Suites').some((suite) => own.includes(suite)) ||
      !words('Components').includes('main')
    )
      return []
    if (/^(no|false|off|0)$/i.test(words('Enabled')[0] ?? '')) return []
    const kept = stanza.trim().replace(/^(Types|Suites|Components):.*(?:\n[ \t].*)*\n?/gim, '')
    return [`Types: deb\nSuites: ${release}\nComponents: main\n${kept.trim()}`]
  })
}

function lines(text: string, own: readonly string[], release: string): string[] {
  return text.split('\n').flatMap((line) => {
    const [, options = '', uri, suite, components = ''] =
      /^\s*deb\s+(\[[^\]]*\]\s+)?(\S+)\s+(\S+)\s+([^#]*)/.exec(line) ?? []
    return own.includes(suite ?? '') && components.split(/\s+/).includes('main')
      ? [`deb ${options}${uri} ${release} main`]
      : []
  })
}
