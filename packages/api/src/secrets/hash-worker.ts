/** A thread that runs Argon2, one run after the other. It yields to everything else that the process does. */
import { readlinkSync } from 'node:fs'
import { constants, setPriority } from 'node:os'
import { basename } from 'node:path'
import { parentPort } from 'node:worker_threads'
import { hashSync, verifySync } from '@node-rs/argon2'
import type { HashAnswer, HashWork } from './hash-message.ts'

yieldToOthers()
parentPort?.on('message', (work: HashWork) => parentPort?.postMessage(answerTo(work), []))

/** On Linux each thread has a priority of its own; elsewhere this one has that of the process. */
function yieldToOthers(): void {
  try {
    setPriority(Number(basename(readlinkSync('/proc/thread-self'))), constants.priority.PRIORITY_BELOW_NORMAL)
  } catch {
    // Then a flood of wrong secrets slows others down a little more.
  }
}

function answerTo(work: HashWork): HashAnswer {
  try {
    return { value: work.type === 'hash' ? hashSync(work.secret, work.options) : verifySync(work.phc, work.secret) }
  } catch (error) {
    return { failure: String(error) }
  }
}
