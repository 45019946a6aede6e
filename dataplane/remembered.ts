/** What was made of a text, kept for the next time it is met. Values are shared, so nobody may change them. */
export class Remembered<Value> {
  readonly #values = new Map<string, Value>()
  readonly #most: number

  /** Past `most` texts, everything is forgotten and remembered anew. */
  constructor(most: number) {
    this.#most = most
  }

  /** The value of a text, made by `make` where it is not known yet; what that throws is not remembered. */
  of(text: string, make: (text: string) => Value): Value {
    const known = this.#values.get(text)
    if (known !== undefined || this.#values.has(text)) return known as Value
    const value = make(text)
    if (this.#values.size >= this.#most) this.#values.clear()
    this.#values.set(text, value)
    return value
  }

  /** The same for a part of a longer text, which would otherwise stay in memory as a whole. */
  ofPart(part: string, make: (text: string) => Value): Value {
    const known = this.#values.get(part)
    if (known !== undefined) return known
    return this.of(this.#values.has(part) ? part : Buffer.from(part).toString(), make)
  }
}
