// Preloaded into the processes of test files by scripts/test.ts.
// node:test follows every promise with an async hook, only to know which test an uncaught error belongs to: a fifth of
// the CPU time of tests with several agents. Without the hook, such an error fails its file, and its stack is printed;
// and `describe` cannot be async, because tests that it adds after an `await` run outside of it.
import hooks from 'node:async_hooks'
import { syncBuiltinESMExports } from 'node:module'

const { createHook } = hooks

hooks.createHook = (callbacks) => {
  const { stack = '' } = new Error()
  if (!stack.includes('node:internal/test_runner/')) return createHook(callbacks)
  process.on('uncaughtExceptionMonitor', (error) => process.stderr.write(`${error?.stack ?? error}\n`))
  return createHook({})
}
syncBuiltinESMExports()
