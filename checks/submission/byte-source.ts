/** Bytes of a stream in the portions that a format asks for. */
export class ByteSource {
  readonly #chunks: AsyncIterator<Uint8Array>
  #held: Buffer[] = []
  #length = 0

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#chunks = chunks[Symbol.asyncIterator]()
  }

  /** Exactly so many bytes; undefined when the stream ends before. */
  async take(count: number): Promise<Buffer | undefined> {
    while (this.#length < count) {
      const { done, value } = await this.#chunks.next()
      if (done) return undefined
      this.#held.push(Buffer.from(value.buffer, value.byteOffset, value.byteLength))
      this.#length += value.byteLength
    }
    const first = this.#held[0]
    const all = first && first.length >= count ? first : Buffer.concat(this.#held)
    const rest = all.subarray(count)
    this.#held = all === first ? [rest, ...this.#held.slice(1)] : [rest]
    this.#length -= count
    return all.subarray(0, count)
  }
}
