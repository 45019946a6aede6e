import { main, UserError } from '../host/main.ts'
import { serveSlides } from '../slides/build/serve.ts'
import { SLIDES_FOLDER, writeSlides } from '../slides/build/write.ts'

await main(async () => {
  const wished = process.env.PORT ?? ''
  if (!/^\d{0,5}$/.test(wished) || Number(wished) > 65535) {
    throw new UserError(`"${wished}" is not a port; choose one from 1 to 65535, for example: make present PORT=8080`)
  }
  await writeSlides(SLIDES_FOLDER, { print: false })
  const server = await serveSlides(SLIDES_FOLDER, Number(wished)).catch((error: Error) => {
    throw new UserError(`Port ${wished} can't be used (${error.message}); leave it out to use a free one: make present`)
  })
  console.log(`The slides are at ${server.url}\nCtrl-C ends it.`)
  await new Promise<void>((resolve) => {
    process.once('SIGINT', () => resolve())
    process.once('SIGTERM', () => resolve())
  })
  await server.close()
})
