/**
 * Runs command lines one after the other in this process, as `static` would, and writes what each printed as a line of
 * JSON. The lines come as JSON in a file.
 */
import { readFileSync, writeSync } from 'node:fs'
import { run } from '../../src/program.ts'

class Exit extends Error {}

const [lines = ''] = process.argv.slice(2)
const [node = '', main = ''] = process.argv
let printed = ''
for (const stream of [process.stdout, process.stderr]) {
  stream.write = (data: string | Uint8Array, done?: unknown) => {
    printed += typeof data === 'string' ? data : Buffer.from(data).toString()
    if (typeof done === 'function') done()
    return true
  }
}
const exit = process.exit.bind(process)
process.exit = () => {
  throw new Exit('The command exits.')
}
for (const words of JSON.parse(readFileSync(lines, 'utf8')) as string[][]) {
  process.argv = [node, main, ...words]
  printed = ''
  await run()
  writeSync(1, `${JSON.stringify({ words, printed })}\n`)
}
exit(0)
