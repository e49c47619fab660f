/** Turns of the event loop, and timers: `#platform/turn` in Node. */

export type Turn = NodeJS.Immediate
export type Timer = NodeJS.Timeout

/** Runs an action after everything that is ready now has been handled. */
export function nextTurn(action: () => void): Turn {
  return setImmediate(action)
}

export function cancelTurn(turn: Turn | undefined): void {
  clearImmediate(turn)
}

/** Runs an action after a delay. */
export function startTimer(milliseconds: number, action: () => void): Timer {
  return setTimeout(action, milliseconds)
}

/** The same, but does not keep the process alive. */
export function startBackgroundTimer(milliseconds: number, action: () => void): Timer {
  return setTimeout(action, milliseconds).unref()
}

/** Runs an action repeatedly. Does not keep the process alive. */
export function startBackgroundInterval(milliseconds: number, action: () => void): Timer {
  return setInterval(action, milliseconds).unref()
}

/** Cancels a timer or an interval. */
export function cancelTimer(timer: Timer | undefined): void {
  clearTimeout(timer)
}
