// The few ASN.1 types of an X.509 certificate in DER (ITU-T X.690).

function element(tag: number, content: Uint8Array): Buffer {
  const length = content.length
  if (length < 0x80) return Buffer.concat([Buffer.from([tag, length]), content])
  const bytes = Buffer.from(length.toString(16).padStart(length > 0xff ? 4 : 2, '0'), 'hex')
  return Buffer.concat([Buffer.from([tag, 0x80 | bytes.length]), bytes, content])
}

export function sequence(...items: Uint8Array[]): Buffer {
  return element(0x30, Buffer.concat(items))
}

export function setOf(item: Uint8Array): Buffer {
  return element(0x31, item)
}

/** A non-negative integer given as its bytes, most significant first. */
export function integer(bytes: Uint8Array): Buffer {
  return element(0x02, (bytes[0] ?? 0) >= 0x80 ? Buffer.concat([Buffer.from([0]), bytes]) : bytes)
}

export function boolean(value: boolean): Buffer {
  return element(0x01, Buffer.from([value ? 0xff : 0]))
}

export function octetString(content: Uint8Array): Buffer {
  return element(0x04, content)
}

/** Whole bytes, or a named bit list with some unused bits at the end. */
export function bitString(content: Uint8Array, unusedBits = 0): Buffer {
  return element(0x03, Buffer.concat([Buffer.from([unusedBits]), content]))
}

export function utf8String(text: string): Buffer {
  return element(0x0c, Buffer.from(text))
}

export function objectIdentifier(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number)
  const bytes = [first * 40 + second]
  for (const arc of rest) {
    const groups = [arc & 0x7f]
    for (let left = arc >>> 7; left > 0; left >>>= 7) groups.unshift((left & 0x7f) | 0x80)
    bytes.push(...groups)
  }
  return element(0x06, Buffer.from(bytes))
}

/** UTCTime up to 2049, GeneralizedTime after, as RFC 5280 4.1.2.5 wants it. */
export function time(date: Date): Buffer {
  const digits = `${date.toISOString().replaceAll(/[-:T]|\.\d+Z$/g, '')}Z`
  return date.getUTCFullYear() < 2050 ? element(0x17, Buffer.from(digits.slice(2))) : element(0x18, Buffer.from(digits))
}

/** `[number]` around complete elements. */
export function explicit(number: number, content: Uint8Array): Buffer {
  return element(0xa0 | number, content)
}

/** `[number]` in place of the tag of a primitive element. */
export function implicit(number: number, content: Uint8Array): Buffer {
  return element(0x80 | number, content)
}
