/**
 * The driver: runs the SDK for a program in another language, which starts it as a child process. The program passes a
 * listening socket and connects to it once per client. Its arguments are the number of that socket and the directory
 * created for it, if there is one. The driver exits when its stdin ends, or with its parent.
 */
// oxlint-disable-next-line import/no-unassigned-import -- checks this Node before anything else runs
import '../platform/node/version.ts'
import { Console } from 'node:console'
import { rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { Worker } from 'node:worker_threads'
import { Connections } from './connections.ts'

const CLOSE_MS = 5000
const LOOK_MS = 1000
/** Runs in its own thread: reports when the parent has exited, then kills the process if it does not end in time. */
const WATCH = `
  const { parentPort, workerData: { parent, lookMs, endMs } } = require('node:worker_threads')
  const looking = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(looking)
    parentPort.postMessage('orphaned')
    setTimeout(() => process.kill(process.pid, 'SIGKILL'), endMs)
  }, lookMs)`

// Stdout is the program's own, so everything goes to stderr.
globalThis.console = new Console(process.stderr)
const [, , listener, directory] = process.argv
const connections = new Connections()
let ending = false

async function end(): Promise<void> {
  if (ending) return
  ending = true
  setTimeout(() => process.exit(1), CLOSE_MS).unref()
  // The program also does this, unless it is killed.
  if (directory !== undefined) rmSync(directory, { recursive: true, force: true })
  await connections.close()
  process.exit(0)
}

// Half open: a program that has ended its side still gets the answers to its calls.
const server = createServer({ allowHalfOpen: true }, (socket) => connections.add(socket))
server.listen({ fd: Number(listener) })
process.stdin.on('end', () => void end())
process.stdin.on('error', () => void end())
process.stdin.resume()
// The end of the pipe is not enough: a process forked by the parent may hold it open. The main thread may be stuck as
// well, for example in a file system that does not respond, so the watcher does not wait for it.
const watch = new Worker(WATCH, {
  eval: true,
  workerData: { parent: process.ppid, lookMs: LOOK_MS, endMs: 2 * CLOSE_MS },
})
watch.on('message', () => void end())
watch.unref()
