/** The plot of a proof: the traffic of one connection in each profile, and how well talking shows in it. */
import type { Findings, Trace } from './findings.ts'
import type { Seen } from './features.ts'
import { isActive } from './schedule.ts'
import { PROFILES, type Way, WAYS } from './scene.ts'

/** One trace for each way and profile. */
export type Traces = Readonly<Record<Way, Readonly<Record<string, Trace>>>>

const WIDTH = 960
const LEFT = 112
const GAP = 28
const PANEL_WIDTH = (WIDTH - LEFT - GAP - 24) / 2
const PANEL_HEIGHT = 64
const ROW = 92
const TOP = 92
const SECONDS = 40
const BIN_S = 0.25
/** Bytes in a bin that fill half of a panel. */
const FULL_BYTES = 5_000
const COLOURS = {
  up: '#1f6feb',
  down: '#d9730d',
  quiet: '#57606a',
  ink: '#1f2328',
  active: '#eaf2e6',
  rule: '#d0d7de',
} as const
const NAMES: Readonly<Record<Way, string>> = { quic: 'QUIC', grpc: 'gRPC' }

/** Draws it as SVG. */
export function plot(findings: Findings, traces: Traces): string {
  const scaleTop = TOP + PROFILES.length * ROW + 34
  const rows = scaleRows(findings)
  const height = scaleTop + 40 + rows.length * 26 + 44
  const parts = [
    text(24, 34, 'What the network sees of one agent', 18, COLOURS.ink, 'bold'),
    text(
      24,
      56,
      `${SECONDS} s of one connection, bytes in each quarter of a second. It talks in the shaded blocks.`,
      13,
    ),
    legend(WIDTH - 24),
    ...WAYS.map((way, column) => text(columnX(column), TOP - 10, NAMES[way], 14, COLOURS.ink, 'bold')),
  ]
  for (const [row, profile] of PROFILES.entries()) {
    const y = TOP + row * ROW
    parts.push(text(24, y + PANEL_HEIGHT / 2 + 5, profile, 14, COLOURS.ink, 'bold'))
    for (const [column, way] of WAYS.entries()) {
      const trace = traces[way][profile]
      if (trace) parts.push(panel(columnX(column), y, trace))
    }
  }
  parts.push(scale(scaleTop, rows))
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" font-family="system-ui, sans-serif" role="img">`,
    '<title>Traffic of one agent in each profile, and how well idle can be told from active</title>',
    `<rect width="${WIDTH}" height="${height}" fill="#ffffff"/>`,
    ...parts,
    '</svg>',
    '',
  ].join('\n')
}

function columnX(column: number): number {
  return LEFT + column * (PANEL_WIDTH + GAP)
}

function panel(x: number, y: number, { connection, schedule }: Trace): string {
  const { startsAt, blockMs } = schedule
  const blockWidth = (PANEL_WIDTH * blockMs) / 1000 / SECONDS
  const blocks = Array.from({ length: Math.ceil((SECONDS * 1000) / blockMs) }, (_, block) => block)
    .filter((block) => isActive(block, connection.phase))
    .map((block) =>
      rectangle(
        x + block * blockWidth,
        y,
        Math.min(blockWidth, PANEL_WIDTH - block * blockWidth),
        PANEL_HEIGHT,
        COLOURS.active,
      ),
    )
  const middle = y + PANEL_HEIGHT / 2
  return [
    ...blocks,
    bars(x, middle, connection.up, startsAt / 1000, -1, COLOURS.up),
    bars(x, middle, connection.down, startsAt / 1000, 1, COLOURS.down),
    line(x, middle, x + PANEL_WIDTH, middle, COLOURS.rule),
    `<rect x="${x}" y="${y}" width="${n(PANEL_WIDTH)}" height="${PANEL_HEIGHT}" fill="none" stroke="${COLOURS.rule}"/>`,
  ].join('\n')
}

/** Bytes over time as one path. */
function bars(x: number, middle: number, packets: readonly Seen[], from: number, side: 1 | -1, colour: string): string {
  const bins = new Float64Array(SECONDS / BIN_S)
  for (const { time, length } of packets) {
    const bin = Math.floor((time - from) / BIN_S)
    if (bin >= 0 && bin < bins.length) bins[bin]! += length
  }
  const width = PANEL_WIDTH / bins.length
  const path = [...bins].flatMap((bytes, bin) => {
    const height = Math.min(1, bytes / FULL_BYTES) * (PANEL_HEIGHT / 2 - 2)
    if (height < 0.3) return []
    return [
      `M${n(x + bin * width)} ${n(middle)}v${n(side * height)}h${n(Math.max(1, width - 0.6))}v${n(-side * height)}z`,
    ]
  })
  return `<path d="${path.join('')}" fill="${colour}"/>`
}

interface ScaleRow {
  readonly name: string
  readonly aucs: readonly { readonly way: Way; readonly auc: number }[]
  /** The bound of 99 % of the results by chance. */
  readonly chance: number
}

function scaleRows({ ways }: Findings): ScaleRow[] {
  const names: Readonly<Record<string, string>> = { private: 'private, 5 s talks', privateLong: 'private, 20 s talks' }
  const kinds = ['off', 'standard', 'privateLong', 'private', 'strict'] as const
  const rows = kinds.map((kind) => {
    const found = WAYS.flatMap((way) => {
      const finding = ways[way].profiles[kind]
      return finding ? [{ way, auc: finding.auc, chance: finding.chance.p99 }] : []
    })
    return { name: names[kind] ?? kind, aucs: found, chance: Math.max(0.5, ...found.map(({ chance }) => chance)) }
  })
  const planted = WAYS.flatMap((way) => {
    const leak = ways[way].plantedLeak
    return leak ? [{ way, auc: leak.auc }] : []
  })
  const strict = rows.at(-1)?.chance ?? 0.5
  return [...rows, { name: 'strict, planted leak', aucs: planted, chance: strict }].filter(
    ({ aucs }) => aucs.length > 0,
  )
}

/** How well idle and active can be told apart, on a line from guessing to knowing. */
function scale(top: number, rows: readonly ScaleRow[]): string {
  const left = 190
  const right = WIDTH - 60
  const at = (auc: number): number => left + ((Math.max(0.45, auc) - 0.45) / 0.55) * (right - left)
  const bottom = top + 34 + rows.length * 26
  const parts = [
    text(24, top, 'How well a classifier tells idle from active', 16, COLOURS.ink, 'bold'),
    text(
      24,
      top + 19,
      'AUC: 0.5 is guessing, 1 is knowing. The grey bar is what chance alone reaches in 99 of 100 tries.',
      13,
    ),
  ]
  for (const tick of [0.5, 0.6, 0.7, 0.8, 0.9, 1]) {
    parts.push(line(at(tick), top + 34, at(tick), bottom, COLOURS.rule))
    parts.push(text(at(tick), bottom + 18, tick.toFixed(1), 12, COLOURS.quiet, 'normal', 'middle'))
  }
  for (const [index, { name, aucs, chance }] of rows.entries()) {
    const y = top + 50 + index * 26
    parts.push(text(24, y + 5, name, 13, COLOURS.ink))
    parts.push(rectangle(at(0.45), y - 6, at(chance) - at(0.45), 12, '#e4e7eb'))
    for (const { way, auc } of aucs) parts.push(mark(at(auc), y, way))
  }
  parts.push(mark(WIDTH - 190, top - 5, 'quic'), text(WIDTH - 178, top, NAMES.quic, 13))
  parts.push(mark(WIDTH - 110, top - 5, 'grpc'), text(WIDTH - 98, top, NAMES.grpc, 13))
  return parts.join('\n')
}

function mark(x: number, y: number, way: Way): string {
  if (way === 'quic') return `<circle cx="${n(x)}" cy="${n(y)}" r="5.5" fill="#6639ba"/>`
  return `<path d="M${n(x)} ${n(y - 7)}l7 7l-7 7l-7 -7z" fill="none" stroke="#1a7f37" stroke-width="2"/>`
}

function legend(right: number): string {
  return [
    rectangle(right - 236, 46, 12, 12, COLOURS.up),
    text(right - 218, 56, 'to the relay', 13),
    rectangle(right - 118, 46, 12, 12, COLOURS.down),
    text(right - 100, 56, 'from the relay', 13),
  ].join('\n')
}

function text(
  x: number,
  y: number,
  words: string,
  size: number,
  fill: string = COLOURS.quiet,
  weight = 'normal',
  anchor = 'start',
): string {
  return `<text x="${n(x)}" y="${n(y)}" font-size="${size}" fill="${fill}" font-weight="${weight}" text-anchor="${anchor}">${words}</text>`
}

function rectangle(x: number, y: number, width: number, height: number, fill: string): string {
  return `<rect x="${n(x)}" y="${n(y)}" width="${n(width)}" height="${n(height)}" fill="${fill}"/>`
}

function line(x1: number, y1: number, x2: number, y2: number, stroke: string): string {
  return `<line x1="${n(x1)}" y1="${n(y1)}" x2="${n(x2)}" y2="${n(y2)}" stroke="${stroke}"/>`
}

function n(value: number): string {
  return Number(value.toFixed(2)).toString()
}
