// Preloaded into the processes of test files by scripts/test.ts.
// node:test follows every promise with an async hook, only to know which test an uncaught error belongs to: a fifth of
// the CPU time of tests with several agents. Here it follows only tests and suites. An uncaught error then fails its
// file, with its stack; and what an async `describe` adds after an `await` would be outside of it.
import hooks from 'node:async_hooks'
import { writeSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

const { AsyncResource, createHook } = hooks
let isUsed = false
let follow

// The class that tests and suites extend.
hooks.AsyncResource = class extends AsyncResource {
  constructor(type, options) {
    super(type, options)
    isUsed ||= type === 'Test'
    follow?.(this.asyncId(), type, this.triggerAsyncId(), this)
  }
}

hooks.createHook = (callbacks) => {
  const { stack = '' } = new Error()
  if (!isUsed || !stack.includes('node:internal/test_runner/')) return createHook(callbacks)
  follow = (...words) => callbacks.init(...words)
  process.on('uncaughtExceptionMonitor', tell)
  return createHook({})
}
syncBuiltinESMExports()

function tell(error) {
  try {
    // Not to the stream: when the parent is gone, each line would be the next uncaught error, forever.
    writeSync(2, `${error?.stack ?? error}\n`)
  } catch {
    // No one reads it any longer.
  }
}
