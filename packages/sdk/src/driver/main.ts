/**
 * The driver: runs the SDK for a program in another language, which starts it as a child process and talks to it over
 * stdin and stdout. It exits with its parent.
 */
import { Console } from 'node:console'
import { Socket } from 'node:net'
import { Worker } from 'node:worker_threads'
import { Driver } from './driver.ts'
import { encodeFrame, FrameReader } from './pipe-frame.ts'

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

// Stdout carries frames only, so everything else goes to stderr.
globalThis.console = new Console(process.stderr)
// Not process.stdout, which blocks the process until a slow reader has read.
const output = new Socket({ fd: 1, readable: false, writable: true })
let ending = false

const driver = new Driver((told, bytes) => {
  // Frames from one turn of the event loop go out in one write.
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
// The end of the pipe is not enough: a process forked by the parent may hold it open. And the main thread may be stuck,
// for example in a file system that does not respond, so the watcher does not wait for it.
const watch = new Worker(WATCH, {
  eval: true,
  workerData: { parent: process.ppid, lookMs: LOOK_MS, endMs: 2 * CLOSE_MS },
})
watch.on('message', () => void end())
watch.unref()
