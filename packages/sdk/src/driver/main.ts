/**
 * The driver: the SDK for a program in another language, which starts it as a child and talks with it over stdin and
 * stdout. It ends with its parent.
 */
import { Console } from 'node:console'
import { Socket } from 'node:net'
import { Worker } from 'node:worker_threads'
import { Driver } from './driver.ts'
import { encodeFrame, FrameReader } from './pipe-frame.ts'

const CLOSE_MS = 5000
const LOOK_MS = 1000
/** In a thread of its own: tells when the parent is gone, and ends the process if that is not enough. */
const WATCH = `
  const { parentPort, workerData: { parent, lookMs, endMs } } = require('node:worker_threads')
  const looking = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(looking)
    parentPort.postMessage('orphaned')
    setTimeout(() => process.kill(process.pid, 'SIGKILL'), endMs)
  }, lookMs)`

// Stdout is for frames; whatever else wants to be said goes to stderr.
globalThis.console = new Console(process.stderr)
// Not process.stdout, which stops everything until a slow reader has read.
const output = new Socket({ fd: 1, readable: false, writable: true })
let ending = false

const driver = new Driver((told, bytes) => {
  // What is told in one turn goes out in one write.
  if (output.writableCorked === 0) {
    output.cork()
    setImmediate(() => output.uncork())
  }
  for (const piece of encodeFrame(told, bytes)) output.write(piece)
})

async function end(): Promise<void> {
  if (ending) return
  ending = true
  setTimeout(() => process.exit(1), CLOSE_MS).unref()
  await driver.close()
  output.end(() => process.exit(0))
}

const frames = new FrameReader()
process.stdin.on('data', (chunk: Buffer) => {
  for (const frame of frames.push(chunk)) driver.take(frame)
})
process.stdin.on('end', () => void end())
process.stdin.on('error', () => void end())
output.on('error', () => process.exit(1))
// A process that the parent has forked may hold the other end of the pipe open, so this thread must be told; and it may
// be stuck, for one in a file system that does not answer, so it is not asked.
const watch = new Worker(WATCH, {
  eval: true,
  workerData: { parent: process.ppid, lookMs: LOOK_MS, endMs: 2 * CLOSE_MS },
})
watch.on('message', () => void end())
watch.unref()
