/** A thread that runs Argon2, one run at a time. It yields to everything else in the process. */
import { readlinkSync } from 'node:fs'
import { constants, setPriority } from 'node:os'
import { basename } from 'node:path'
import { parentPort } from 'node:worker_threads'
import { hashSync, verifySync } from '@node-rs/argon2'
import type { HashAnswer, HashWork } from './hash-message.ts'

yieldToOthers()
parentPort?.on('message', (work: HashWork) => parentPort?.postMessage(answerTo(work), []))

/** On Linux, each thread has its own priority; elsewhere, this thread has that of the process. */
function yieldToOthers(): void {
  try {
    setPriority(Number(basename(readlinkSync('/proc/thread-self'))), constants.priority.PRIORITY_BELOW_NORMAL)
  } catch {
    // Without it, a flood of wrong secrets slows others down a little more.
  }
}

function answerTo(work: HashWork): HashAnswer {
  try {
    return { value: work.type === 'hash' ? hashSync(work.secret, work.options) : verifySync(work.phc, work.secret) }
  } catch (error) {
    return { failure: String(error) }
  }
}
