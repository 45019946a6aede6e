/**
 * The bytes of a request's body, or undefined if there are more than `limitBytes`. What is too much
 * is read and dropped: a request that is left half read would hold up the next one on its
 * connection, which kubectl proxy, for example, keeps.
 */
export async function readBodyUpTo(
  limitBytes: number,
  body: AsyncIterable<Uint8Array>,
): Promise<Buffer | undefined> {
  const chunks: Uint8Array[] = []
  let sizeBytes = 0
  for await (const chunk of body) {
    sizeBytes += chunk.length
    if (sizeBytes <= limitBytes) chunks.push(chunk)
    else chunks.length = 0
  }
  return sizeBytes <= limitBytes ? Buffer.concat(chunks) : undefined
}
