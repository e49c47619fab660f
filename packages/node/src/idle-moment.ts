/**
 * Waits until this thread has had time to spare. Work that a flood can cause is spread by it: as long as others keep the
 * thread busy, that work gets a small share of the time instead of queueing up in front of everyone.
 */

/** How long the thread must have been idle since the call, all together. */
const IDLE_MS = 2
/** After this long the wait is over, however busy the thread is. */
const MOST_MS = 5
const LOOK_MS = 1

/** The thread that may be busy. */
export interface Thread {
  /** The milliseconds since the call of `watch`, and those of them in which the thread was idle. */
  watch(): () => { readonly passed: number; readonly idle: number }
  after(milliseconds: number, act: () => void): void
}

const OWN: Thread = {
  watch() {
    const [start, before] = [performance.now(), performance.eventLoopUtilization()]
    return () => ({ passed: performance.now() - start, idle: performance.eventLoopUtilization(before).idle })
  },
  after: (milliseconds, act) => void setTimeout(act, milliseconds),
}

/** Calls back once the thread has been idle for a moment, or has been busy for too long to wait on. */
export function atIdleMoment(act: () => void, thread: Thread = OWN): void {
  const since = thread.watch()
  const look = (): void => {
    const { passed, idle } = since()
    if (idle >= IDLE_MS || passed >= MOST_MS) act()
    else thread.after(LOOK_MS, look)
  }
  thread.after(LOOK_MS, look)
}
