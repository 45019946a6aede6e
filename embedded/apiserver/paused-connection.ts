/** As often as kubectl sends its own. */
const pingMs = 5_000

/**
 * A connection is not read while a command takes no more input, so that its end goes unnoticed:
 * only a failed write shows it then. `ping` writes something while `isWaiting`. Returns a function
 * that ends this.
 */
export function noticeEnd(isWaiting: () => boolean, ping: () => void): () => void {
  const timer = setInterval(() => isWaiting() && ping(), pingMs)
  timer.unref()
  return () => clearInterval(timer)
}
