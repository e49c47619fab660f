/**
 * A process that works on a store until it is killed, or kills itself before a given step. It tells what it has found
 * and what was acknowledged. Arguments: directory, step (0: never).
 */
import { sayAtOnce } from '@static/testkit/crash/say'
import { beforeEveryStep } from './steps.ts'
import { openStore } from './support.ts'
import { lastWrite, numberedWrite } from './workload.ts'

const [directory = '', last = '0'] = process.argv.slice(2)
let step = 0
beforeEveryStep(() => {
  step += 1
  if (step === Number(last)) process.kill(process.pid, 'SIGKILL')
})

const store = await openStore(directory)
let n = lastWrite(store)
sayAtOnce(`opened ${n}`)
for (;;) {
  n += 1
  store.write(numberedWrite(n))
  sayAtOnce(`acknowledged ${n}`)
  if (n % 7 === 0) store.checkpoint()
}
