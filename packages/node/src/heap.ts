/** Garbage collection of processes that are ours alone: servers and the driver. A library does not decide that. */
import { setFlagsFromString } from 'node:v8'

/**
 * Lets the heap of this process, in all its threads, grow to twice of what is in use before all of it is collected
 * again. By itself V8 collects a heap of a busy server's size (50 MB) after a few megabytes: in bursts of messages,
 * marking it in helper threads took a tenth of the relay's CPU.
 */
export function collectLessOften(): void {
  setFlagsFromString('--heap-growing-percent=100')
}
