import { relative } from 'node:path'
import { main } from '../host/main.ts'
import { SLIDES_FOLDER, writeSlides } from '../slides/build/write.ts'

await main(async () => {
  const { decks, pdf, without } = await writeSlides()
  const slides = decks.reduce((sum, deck) => sum + deck.slides, 0)
  const folder = relative(process.cwd(), SLIDES_FOLDER)
  console.log(
    `${decks.length} decks with ${slides} slides are in ${folder}; open ${folder}/index.html or run make present.`,
  )
  if (pdf.size > 0) console.log('Chromium measured each slide and printed a PDF of each deck.')
  else console.log(`No PDF, because ${without}; any browser can print the pages. (CHROMIUM=/path selects one.)`)
})
