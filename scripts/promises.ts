/**
 * The table of promises in docs/09-promises.md: a row for each promise, with the newest result of each proof that shows
 * it. A proof that passes writes its own results: each line `promise T1: FIGURES` of its output belongs to that
 * promise. Below the table stands how many processes were killed in the runs that it lists.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'

/** The result of a proof for a promise. The first word of the command is the proof's name, the others are options. */
interface Result {
  readonly id: string
  readonly command: string
  readonly figures: string
  readonly date: string
}

const PAGE = resolve(import.meta.dirname, '../docs/09-promises.md')
const TABLE = /(<!-- promises -->\n)[^]*(\n<!-- \/promises -->)/
const LINE = /\bpromise (T\d+): (.+)$/gm
/** In the results of T1. */
const KILLS = /(\d+) kills/g
const COMMAND = 'npm run proof -- '
const ROW = /^\| (T\d+) \| .+? \| (`.+) \|$/gm
const BREAK = '<br>'
const RESULT = /^`(.+?)` \((\S+)\): (.+)$/

/** What is promised, by number. */
const PROMISES: Readonly<Record<string, string>> = {
  T1: 'no acknowledged message is lost when a process dies',
  T2: '… nor when the power goes',
  T3: 'damage is noticed, never served',
  T4: 'a message reaches the application exactly once',
  T5: 'one commit per slot, one order for all',
  T6: 'a relay that lies is refused or noticed',
  T7: 'a member that lies is refused or noticed',
  T8: 'plaintext never leaves the agent',
  T9: 'a revoked key is refused at once',
  T10: 'the quota is never exceeded',
  T11: 'in `strict`, an idle agent looks like a busy one',
  T12: 'no flood disturbs anyone else',
  T13: 'a failed simulation can be replayed',
  T14: 'the tests notice bugs',
  T15: 'few dependencies, all of them known',
}

/** Writes the results that a proof has printed into the table. */
export function recordPromises(command: string, output: string, date: string): void {
  const results = Map.groupBy(output.matchAll(LINE), ([, id = '']) => id)
  if (results.size === 0) return
  const found = [...results].map(([id, lines]): Result => {
    return { id, command, figures: lines.map(([, , figures = '']) => figures).join('; '), date }
  })
  writeFileSync(PAGE, updatedPage(readFileSync(PAGE, 'utf8'), found))
}

/** The page with results replaced or added. */
export function updatedPage(page: string, found: readonly Result[]): string {
  const results = new Map(resultsOf(page).map((result) => [keyOf(result), result]))
  for (const result of found) {
    if (!(result.id in PROMISES)) throw new Error(`There is no promise ${result.id}.`)
    const command = result.command.replace(COMMAND, '')
    const figures = result.figures.replaceAll('|', '\\|')
    results.set(keyOf({ ...result, command }), { ...result, command, figures })
  }
  const sorted = [...results.values()].sort((a, b) => (a.command < b.command ? -1 : 1))
  const lines = Object.entries(PROMISES).flatMap(([id, promise]) => {
    const own = sorted.filter((result) => result.id === id).map(textOf)
    return own.length === 0 ? [] : [`| ${id} | ${promise} | ${own.join(BREAK)} |`]
  })
  const kills = sorted
    .filter(({ id }) => id === 'T1')
    .flatMap(({ figures }) => [...figures.matchAll(KILLS)])
    .reduce((sum, [, count]) => sum + Number(count), 0)
  const total = `In the runs of T1, processes were killed ${kills.toLocaleString('en')} times: 0 lost, 0 doubled.`
  const head = [`| # | promise | newest result of each proof (\`${COMMAND}NAME\`) |`, '|---|---|---|']
  if (!TABLE.test(page)) throw new Error('docs/09-promises.md has no table between `<!-- promises -->` and its end.')
  return page.replace(
    TABLE,
    (_all, start: string, end: string) => `${start}${[...head, ...lines, '', total].join('\n')}${end}`,
  )
}

function resultsOf(page: string): Result[] {
  return [...page.matchAll(ROW)].flatMap(([, id = '', cell = '']) =>
    cell.split(BREAK).flatMap((text) => {
      const [, command = '', date = '', figures = ''] = RESULT.exec(text) ?? []
      return command === '' ? [] : [{ id, command, figures, date }]
    }),
  )
}

function textOf({ command, date, figures }: Result): string {
  return `\`${command}\` (${date}): ${figures}`
}

/** A run with other options replaces an earlier one of the same proof. */
function keyOf({ id, command }: Result): string {
  return `${id} ${command.split(' ')[0]}`
}
