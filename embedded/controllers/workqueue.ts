/** A queue of object keys that one reconcile function works off, as client-go's rate-limited workqueue. */
export interface Workqueue {
  /** Asks for a reconcile of `key` in the next macrotask; asking many times before it runs is asking once. */
  add(key: string): void
  /** Asks for a reconcile of `key` later; of several times the earliest holds. */
  addAfter(key: string, milliseconds: number): void
  /** True when nothing waits for its turn or is to be tried again; what `addAfter` asked for later does not count. */
  isIdle(): boolean
  /** Forgets everything asked for; nothing runs afterwards. */
  stop(): void
}

// client-go's default rate limiter starts at 5 ms and doubles; its cap of 1000 s would outlive any lab.
const firstRetryMs = 5
const lastRetryMs = 30_000
// A long batch lets the API server and the kubelets have their turn.
const turnMs = 10
// setTimeout's own limit; a reconcile that comes too early asks again.
const longestTimerMs = 2 ** 31 - 1

/**
 * Makes a queue that calls `reconcile(key)`, never twice at once for a key. When it throws, the error goes to `failed`
 * and the key is tried again with exponential back-off until a call succeeds.
 */
export function createWorkqueue(
  reconcile: (key: string) => void,
  failed: (key: string, error: unknown) => void,
): Workqueue {
  const dirty = new Set<string>()
  const failures = new Map<string, number>()
  const timers = new Map<string, { due: number; timer: NodeJS.Timeout }>()
  let turn: NodeJS.Immediate | undefined
  let stopped = false

  function run(key: string) {
    try {
      reconcile(key)
      failures.delete(key)
    } catch (error) {
      const count = failures.get(key) ?? 0
      failures.set(key, count + 1)
      failed(key, error)
      addAfter(key, Math.min(firstRetryMs * 2 ** count, lastRetryMs))
    }
  }

  function takeTurn() {
    turn = undefined
    const end = performance.now() + turnMs
    // Only what was asked before this turn: a reconcile sees what its own earlier writes caused.
    for (const key of [...dirty]) {
      if (stopped || performance.now() > end) break
      dirty.delete(key)
      run(key)
    }
    if (dirty.size > 0) schedule()
  }

  function schedule() {
    if (!stopped) turn ??= setImmediate(takeTurn)
  }

  function add(key: string) {
    if (stopped) return
    dirty.add(key)
    schedule()
  }

  function addAfter(key: string, milliseconds: number) {
    if (stopped) return
    const delay = Math.min(Math.max(milliseconds, 0), longestTimerMs)
    const due = Date.now() + delay
    const waiting = timers.get(key)
    if (waiting && waiting.due <= due) return
    if (waiting) clearTimeout(waiting.timer)
    const timer = setTimeout(() => {
      timers.delete(key)
      add(key)
    }, delay)
    timers.set(key, { due, timer })
  }

  function stop() {
    stopped = true
    if (turn) clearImmediate(turn)
    for (const { timer } of timers.values()) clearTimeout(timer)
    timers.clear()
    dirty.clear()
  }

  return { add, addAfter, isIdle: () => dirty.size === 0 && failures.size === 0, stop }
}
