/** The figures for people: the table in docs/04-traffic.md, between its two marks. */
import type { Finding, Findings } from './findings.ts'
import { WAYS } from './scene.ts'

const BEGIN = '<!-- traffic:begin -->'
const END = '<!-- traffic:end -->'

const ROWS = [
  ['off', '`off`'],
  ['standard', '`standard`'],
  ['private', '`private`, talks of 5 s'],
  ['privateLong', '`private`, talks of 20 s'],
  ['strict', '`strict`'],
] as const

/** The table, as Markdown. */
export function tableOf({ ways }: Findings): string {
  const lines = ['| profile | AUC over QUIC | AUC over gRPC | on the wire, each way |', '|---|---|---|---|']
  for (const [kind, name] of ROWS) {
    const found = WAYS.map((way) => ways[way].profiles[kind])
    const rates = found.flatMap((finding) => (finding ? [finding.bytesPerSecond.up, finding.bytesPerSecond.down] : []))
    lines.push(`| ${name} | ${found.map(aucOf).join(' | ')} | ${kilobytes(rates)} |`)
  }
  const planted = WAYS.map((way) => ways[way].plantedLeak)
  lines.push(`| \`strict\` with a planted leak | ${planted.map(aucOf).join(' | ')} | |`)
  return lines.join('\n')
}

/** A page with the table between its marks. */
export function withTable(page: string, table: string): string {
  const begin = page.indexOf(BEGIN)
  const end = page.indexOf(END)
  if (begin === -1 || end < begin) throw new Error(`The page has no place for the table: ${BEGIN} and ${END}.`)
  return `${page.slice(0, begin + BEGIN.length)}\n\n${table}\n\n${page.slice(end)}`
}

function aucOf(found: Pick<Finding, 'auc' | 'p'> | undefined): string {
  return found ? `${found.auc.toFixed(2)} (p ${found.p < 0.01 ? '< 0.01' : found.p.toFixed(2)})` : '–'
}

function kilobytes(rates: readonly number[]): string {
  if (rates.length === 0) return '–'
  const words = [Math.min(...rates), Math.max(...rates)].map((rate) => (rate / 1000).toFixed(1))
  return `${words[0] === words[1] ? words[0] : words.join('–')} kB/s`
}
