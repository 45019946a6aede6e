import { visibleText } from '../../../host/plain-text.ts'

/** Text for XML 1.0: marks escaped, characters that XML forbids (2.2 of the recommendation) made visible. */
export function xmlText(text: string): string {
  return visibleText(text)
    .replace(/[\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, visible)
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;')
}

const visible = (character: string) => `\\u${character.charCodeAt(0).toString(16)}`
