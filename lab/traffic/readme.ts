/** The figures for people: the table in README.md, between its two marks. */
import { readFileSync, writeFileSync } from 'node:fs'
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

/** Writes the table into a README; the marks must be there. */
export function writeTable(path: string, table: string): void {
  const content = readFileSync(path, 'utf8')
  const begin = content.indexOf(BEGIN)
  const end = content.indexOf(END)
  if (begin === -1 || end < begin) throw new Error(`${path} has no place for the table of the traffic.`)
  writeFileSync(path, `${content.slice(0, begin + BEGIN.length)}\n\n${table}\n\n${content.slice(end)}`)
}

function aucOf(found: Pick<Finding, 'auc' | 'p'> | undefined): string {
  return found ? `${found.auc.toFixed(2)} (p ${found.p < 0.01 ? '< 0.01' : found.p.toFixed(2)})` : '–'
}

function kilobytes(rates: readonly number[]): string {
  if (rates.length === 0) return '–'
  const words = [Math.min(...rates), Math.max(...rates)].map((rate) => (rate / 1000).toFixed(1))
  return `${words[0] === words[1] ? words[0] : words.join('–')} kB/s`
}
