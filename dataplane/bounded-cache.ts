/** What was computed from a text, kept for the next time. Values are shared, so callers must not change them. */
export class BoundedCache<Value> {
  readonly #values = new Map<string, Value>()
  readonly #limit: number

  /** A cache that holds `limit` texts is emptied before it takes another one. */
  constructor(limit: number) {
    this.#limit = limit
  }

  /** The value of a text, from `create` where the cache does not have it; when that throws, nothing is kept. */
  getOrCreate(text: string, create: (text: string) => Value): Value {
    const known = this.#values.get(text)
    if (known !== undefined || this.#values.has(text)) return known as Value
    const value = create(text)
    if (this.#values.size >= this.#limit) this.#values.clear()
    this.#values.set(text, value)
    return value
  }

  /** The same for a part of a longer text: V8 keeps a whole text in memory for the sake of a slice, so a copy becomes the key. */
  getOrCreateOfSlice(slice: string, create: (text: string) => Value): Value {
    const known = this.#values.get(slice)
    if (known !== undefined) return known
    return this.getOrCreate(this.#values.has(slice) ? slice : Buffer.from(slice).toString(), create)
  }
}
