/**
 * The table of promises in docs/09-promises.md. A proof that passes writes its own rows: each line `promise T1: FIGURES`
 * of its output becomes the last result of that promise and command. Below the table stands how many processes were killed
 * in the runs that it lists.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'

interface Row {
  readonly id: string
  readonly command: string
  readonly result: string
  readonly date: string
}

const PAGE = resolve(import.meta.dirname, '../docs/09-promises.md')
const TABLE = /(<!-- promises -->\n)[^]*(\n<!-- \/promises -->)/
const LINE = /\bpromise (T\d+): (.+)$/gm
/** In the results of T1. */
const KILLS = /(\d+) kills/g
const ROW = /^\| (T\d+) \| .+? \| `(.+?)` \| (.+?) \| (.+?) \|$/gm

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
  const found = [...results].map(([id, lines]): Row => {
    return { id, command, result: lines.map(([, , result = '']) => result).join('; '), date }
  })
  writeFileSync(PAGE, updatedPage(readFileSync(PAGE, 'utf8'), found))
}

/** The page with rows replaced or added. */
export function updatedPage(page: string, found: readonly Row[]): string {
  const rows = new Map(rowsOf(page).map((row) => [keyOf(row), row]))
  for (const row of found) {
    if (!(row.id in PROMISES)) throw new Error(`There is no promise ${row.id}.`)
    rows.set(keyOf(row), { ...row, result: row.result.replaceAll('|', '\\|') })
  }
  const sorted = [...rows.values()].sort((a, b) => numberOf(a) - numberOf(b) || (a.command < b.command ? -1 : 1))
  const lines = sorted.map(
    ({ id, command, result, date }) => `| ${id} | ${PROMISES[id]} | \`${command}\` | ${result} | ${date} |`,
  )
  const kills = sorted
    .filter(({ id }) => id === 'T1')
    .flatMap(({ result }) => [...result.matchAll(KILLS)])
    .reduce((sum, [, count]) => sum + Number(count), 0)
  const total = `In the runs of T1, processes were killed ${kills.toLocaleString('en')} times: 0 lost, 0 doubled.`
  const head = ['| # | promise | command | last result | date |', '|---|---|---|---|---|']
  if (!TABLE.test(page)) throw new Error('docs/09-promises.md has no table between `<!-- promises -->` and its end.')
  return page.replace(
    TABLE,
    (_all, start: string, end: string) => `${start}${[...head, ...lines, '', total].join('\n')}${end}`,
  )
}

function rowsOf(page: string): Row[] {
  return [...page.matchAll(ROW)].map(([, id = '', command = '', result = '', date = '']) => ({
    id,
    command,
    result,
    date,
  }))
}

function keyOf({ id, command }: Row): string {
  return `${id} ${command}`
}

function numberOf({ id }: Row): number {
  return Number(id.slice(1))
}
