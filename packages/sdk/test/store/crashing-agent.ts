/**
 * A process that works on a store until it is killed, or kills itself before a given step. It tells what it has found
 * and what was acknowledged. Arguments: directory, step (0: never).
 */
import { writeSync } from 'node:fs'
import { beforeEveryStep } from './steps.ts'
import { openStore } from './support.ts'
import { lastWrite, numberedWrite } from './workload.ts'

const [directory = '', last = '0'] = process.argv.slice(2)
let step = 0
beforeEveryStep(() => {
  step += 1
  if (step === Number(last)) process.kill(process.pid, 'SIGKILL')
})

function say(line: string): void {
  // Not console.log: what was said must be out before the next step.
  writeSync(1, `${line}\n`)
}

const store = await openStore(directory)
let n = lastWrite(store)
say(`opened ${n}`)
for (;;) {
  n += 1
  store.write(numberedWrite(n))
  say(`acknowledged ${n}`)
  if (n % 7 === 0) store.checkpoint()
}
