import { containerEngine } from '../cluster/kind/engine.ts'
import { bakeNodeImage, fetchLabImages, pinnedImage } from '../cluster/kind/images.ts'
import { main, Refusal } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'

await main(async () => {
  const engine = await containerEngine()
  if (!engine)
    throw new Refusal(
      'No Docker or Podman engine responds: start one; the embedded cluster needs no image.',
    )
  const own = process.env.IMAGE
  const progress = createProgress()
  const name = await bakeNodeImage(engine, own || pinnedImage(), progress)
  const { missing, reason } = await fetchLabImages(engine, progress)
  if (missing.length > 0)
    throw new Refusal(
      `${name} is ready, but ${missing.join(', ')} could not be fetched (${reason}): run \`make node-image\` again where there is a network.`,
    )
  console.log(
    own
      ? `${name} is ready. A new cluster runs it with: IMAGE=${name} make up`
      : `${name} is ready: the next \`make up\` on kind uses it (\`make down\` first, if a cluster is up).`,
  )
})
