import { requestedPort, untilTerminated } from '../host/loopback-server.ts'
import { main } from '../host/main.ts'
import { serveSlides } from '../slides/build/serve.ts'
import { SLIDES_FOLDER, writeSlides } from '../slides/build/write.ts'

await main(async () => {
  const port = requestedPort('present')
  await writeSlides(SLIDES_FOLDER, { print: false })
  const server = await serveSlides(SLIDES_FOLDER, port)
  console.log(`The slides are at ${server.url}\nCtrl-C ends it.`)
  await untilTerminated()
  await server.close()
})
