import { describe, expect, test } from 'vitest'
import type { LabText } from '../../course/lab-text.ts'
import { deckMinutes, readDeck, type Slide } from '../../slides/build/deck.ts'
import { resolveFence } from '../../slides/build/directives.ts'
import { deckPage } from '../../slides/build/page.ts'
import { buildDecks, deckNames } from '../../slides/build/write.ts'

const slide = (body: string) => `# Deck\n\n---\n\n## One idea\n\n${body}\n`
const broken = (body: string) => () => readDeck('99-test', slide(body))

describe('reading a deck', () => {
  test('slides, notes and directives are distinguished', () => {
    const deck = readDeck(
      '99-test',
      slide('Text.\n\n<!-- figure: lookup -->\n\n<!-- notes: 3 min\nSay *this*.\n\nAnd this.\n-->'),
    )
    expect(
      deck.slides.map(({ title, content }) => [title, content.match(/<p>|<figure /g)]),
    ).toEqual([
      ['Deck', null],
      ['One idea', ['<p>', '<figure ']],
    ])
    expect(deck.slides[1]).toMatchObject({
      notes: '<p><em>3 min.</em> Say <em>this</em>.</p>\n<p>And this.</p>\n',
      minutes: 3,
    })
  })

  test.each([
    [
      'a slide without a heading',
      '# Deck\n\n---\n\nText.',
      /99-test\.md:5: slide 2 must begin with a heading/,
    ],
    ['two headings', slide('## Another'), /"One idea" has a second heading/],
    ['commands of its own', slide('```bash\nls\n```'), /:7: commands come from the lab's text/],
    ['HTML', slide('<b>x</b>'), /can't be in a slide/],
    ['notes without minutes', slide('<!-- notes:\nSay this.\n-->'), /must begin with the minutes/],
    ['an image', slide('![x](http://example.com/x.png)'), /can't be in a slide/],
  ])('%s is refused', (_, text, message) => {
    expect(() => readDeck('99-test', text)).toThrow(message)
  })
})

describe('references', () => {
  const lab: LabText = {
    intro: '',
    outro: '',
    card: '',
    sections: new Map(),
    quotes: [],
    fences: [
      { commands: 'first', timeout: 30, line: 1 },
      { commands: 'a\nb\nc', timeout: 30, line: 2, step: 'web' },
      { commands: 'last', timeout: 30, line: 3 },
    ],
  }
  const resolve = (reference: string, lines?: string) =>
    resolveFence(reference, lines, (folder) => (folder === '02-ipvs' ? lab : undefined))

  test('a fence by step and number, whole or in part, and those outside of steps', () => {
    expect(resolve('02-ipvs/web#1')).toBe('a\nb\nc')
    expect(resolve('02-ipvs/web#1', '2-3')).toBe('b\nc')
    expect(resolve('02-ipvs/web#1', '2')).toBe('b')
    expect(resolve('02-ipvs/start#1')).toBe('first')
    expect(resolve('02-ipvs/done#1')).toBe('last')
  })

  test.each([
    ['02-ipvs/web#2', undefined, /has 1 fences of "web"/],
    ['02-ipvs/nothing#1', undefined, /has 0 fences of "nothing"/],
    ['09-none/web#1', undefined, /names a lab that does not exist/],
    ['web', undefined, /is not a reference to a fence/],
    ['02-ipvs/web#1', '3-4', /has 3 lines, so lines=3-4 is out of range/],
    ['02-ipvs/web#1', '0', /lines=0 is out of range/],
  ])('%s with lines %s is refused', (reference, lines, message) => {
    expect(() => resolve(reference, lines)).toThrow(message)
  })

  test.each([
    [
      '<!-- fence: 02-ipvs/nothing#1 -->',
      /slides\/99-test\.md:7: "02-ipvs\/nothing#1" does not exist/,
    ],
    ['<!-- figure: nonsense -->', /:7: "nonsense" is not a figure/],
    [
      '<!-- figure: packet from=host to=10.96.0.1:443 recording=none -->',
      /there is no recording "none"/,
    ],
    [
      '<!-- figure: chains recording=v1.30.3/iptables/web-clusterip service=default/nobody -->',
      /there is no Service "default\/nobody"/,
    ],
    [
      '<!-- rules: KUBE-NOTHING recording=v1.30.3/iptables/web-clusterip -->',
      /has no chain "KUBE-NOTHING"/,
    ],
    [
      '<!-- rules: KUBE-SERVICES recording=v1.30.3/iptables/web-itp-local table=filter -->',
      /has no rule in the chain "KUBE-SERVICES" of the table filter/,
    ],
    ['<!-- picture: hooks -->', /"picture" is not a directive/],
  ])('a deck with %s does not build', (body, message) => {
    expect(broken(body)).toThrow(message)
  })

  test('all broken references are named at once', () => {
    expect(broken('<!-- figure: one -->\n\n<!-- figure: two -->')).toThrow(/"one"[\s\S]*"two"/)
  })
})

test('every deck builds: about fifteen slides, all with notes, and a page that loads nothing', () => {
  const decks = buildDecks()
  expect(decks.map(({ name }) => name)).toEqual(deckNames())
  for (const deck of decks) {
    expect(deck.slides.length, deck.name).toBeGreaterThanOrEqual(10)
    expect(deck.slides.length, deck.name).toBeLessThanOrEqual(18)
    expect(
      deck.slides.filter(({ notes }) => notes === '').map(({ title }) => title),
      deck.name,
    ).toEqual([])
    const page = deckPage(deck, { style: '', fit: '', script: '' })
    expect(page).not.toMatch(/\b(src|href)="(?!#|index\.html)/)
    expect(page).not.toMatch(/url\(|@import/)
  }
})

/** What participants read of a slide, without commands and figures. */
const visible = ({ heading, content }: Slide) =>
  `${heading} ${content}`.replace(/<(pre|figure)\b.*?<\/\1>/gs, '').replace(/<[^>]*>/g, '')

test('the notes of a question have the expected answer and what is often wrong', () => {
  const questions = buildDecks().flatMap(({ name, slides }) =>
    slides.filter((slide) => visible(slide).includes('?')).map((slide) => ({ name, ...slide })),
  )
  const silent = questions.filter(
    ({ notes }) => !/<strong>Expected/.test(notes) || !/<strong>Often wrong/.test(notes),
  )
  expect(silent.map(({ name, title }) => `${name}: ${title}`)).toEqual([])
  expect(questions.length).toBeGreaterThan(15)
})

test('each deck of a lab has a poll, an exercise in pairs, and a way out when a demonstration fails', () => {
  for (const { name, slides } of buildDecks().slice(1)) {
    const titles = slides.map(({ title }) => title)
    expect(titles.filter((title) => title.startsWith('Poll: ')).length, name).toBeGreaterThan(0)
    expect(titles, name).toContain('In pairs')
    const notes = slides.map((slide) => slide.notes).join('')
    expect(notes, name).toContain('<strong>If it fails:</strong>')
  }
})

test('a deck takes between 25 and 60 minutes', () => {
  const minutes = buildDecks().map((deck) => `${deck.name} ${deckMinutes(deck)}`)
  expect(minutes.filter((one) => !/ (2[5-9]|[345]\d|60)$/.test(one))).toEqual([])
})
