/**
 * `npm run bench`: runs every file in bench/, one after the other. Arguments after `--` select some by name; paths and
 * flags among them (`pairs ../other --json`) are passed on.
 */
import { readdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fail, run, say } from './step.ts'

const folder = resolve(import.meta.dirname, '../bench')
const known = readdirSync(folder)
  .filter((name) => name.endsWith('.ts'))
  .map((name) => name.slice(0, -3))
  .sort()
const isPassedOn = (word: string): boolean => word.includes('/') || word.startsWith('--')
const passedOn = process.argv.slice(2).filter(isPassedOn)
const chosen = process.argv.slice(2).filter((word) => !isPassedOn(word))
const unknown = chosen.filter((name) => !known.includes(name))
if (unknown.length > 0) fail(`Unknown bench: ${unknown.join(', ')}. Known: ${known.join(', ')}.`)

const missed: string[] = []
for (const name of chosen.length > 0 ? chosen : known) {
  say(`Bench ${name}`)
  if ((await run(process.execPath, [join(folder, `${name}.ts`), ...passedOn])) !== 0) missed.push(name)
}
if (missed.length > 0) fail(`Missed their targets, or failed: ${missed.join(', ')}.`)
