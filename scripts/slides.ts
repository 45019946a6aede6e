// Builds the slides; with --present it shows them on this machine instead of printing them.
import { relative } from 'node:path'
import { requestedPort, untilTerminated } from '../host/loopback-server.ts'
import { main } from '../host/main.ts'
import { deckMinutes } from '../slides/build/deck.ts'
import { serveSlides } from '../slides/build/serve.ts'
import { SLIDES_FOLDER, writeSlides } from '../slides/build/write.ts'

await main(async () => (process.argv.includes('--present') ? present() : build()))

async function present(): Promise<void> {
  const port = requestedPort('present')
  await writeSlides(SLIDES_FOLDER, { print: false })
  const server = await serveSlides(SLIDES_FOLDER, port)
  console.log(`The slides are at ${server.url}\nCtrl-C ends it.`)
  await untilTerminated()
  await server.close()
}

async function build(): Promise<void> {
  const { decks, pdf, without } = await writeSlides()
  const slides = decks.reduce((sum, deck) => sum + deck.slides.length, 0)
  const folder = relative(process.cwd(), SLIDES_FOLDER)
  console.log(
    `${decks.length} decks with ${slides} slides are in ${folder}; open ${folder}/index.html or run make present.`,
  )
  console.log(`Minutes: ${decks.map((deck) => `${deck.name} ${deckMinutes(deck)}`).join(', ')}.`)
  if (pdf.size > 0) console.log('Chromium measured each slide and printed a PDF of each deck.')
  else
    console.log(
      `No PDF, because ${without}; any browser can print the pages. (CHROMIUM=/path selects one.)`,
    )
}
