/** The test of the test: what reads captures and looks for differences finds what is there, and nothing else. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { chanceOf } from '../../lab/traffic/chance.ts'
import { areaUnderCurve, learnAndScore, matrixOf } from '../../lab/traffic/classifier.ts'
import { type Connection, samplesOf } from '../../lab/traffic/features.ts'
import { plantLeak } from '../../lab/traffic/leak.ts'
import { readPackets } from '../../lab/traffic/pcap.ts'
import { tryToTell } from '../../lab/traffic/permutation.ts'
import type { Finding, Findings } from '../../lab/traffic/findings.ts'
import { fisher, pooled } from '../../lab/traffic/pooled.ts'
import { windowsOf } from '../../lab/traffic/schedule.ts'
import { burstsOf, onlyInOne, sizesOf } from '../../lab/traffic/sizes.ts'
import { synthetic } from '../../lab/traffic/synthetic.ts'
import { tableOf, withTable } from '../../lab/traffic/table.ts'

const SCHEDULE = { startsAt: 1_800_000_000_000, blockMs: 5000, blocks: 12 }
const OPTIONS = { seed: 6, splits: 4, permutations: 99 }
const SIZE = { groups: 16, perGroup: 2 }

test('ticks that are 15 ms late when an agent talks are detected', () => {
  const samples = samplesOf(synthetic(SCHEDULE, { ...SIZE, seed: 1, lateness: 0.015 }), SCHEDULE)
  const { auc, p } = tryToTell(samples, OPTIONS)
  assert.ok(auc > 0.55, `AUC ${auc}`)
  assert.ok(p <= 0.01, `p ${p}`)
})

test('nothing is found in a clock that does not depend on talking, even if the machine sometimes stalls', () => {
  const results = [0, 0.02, 0.05].flatMap((hiccups, at) =>
    [100, 200].map((seed) => {
      const samples = samplesOf(synthetic(SCHEDULE, { ...SIZE, seed: seed + at, lateness: 0, hiccups }), SCHEDULE)
      return tryToTell(samples, { ...OPTIONS, splits: 2, permutations: 99 })
    }),
  )
  // The seeds are fixed: by chance alone one in a hundred is so low.
  const low = results.filter(({ p }) => p <= 0.01)
  assert.equal(low.length, 0, `p: ${results.map(({ p }) => p).join(', ')}`)
  for (const { auc } of results) assert.ok(Math.abs(auc - 0.5) < 0.08, `AUC ${auc}`)
})

test('a leak worth 0.58 that is planted into a clean clock is found', () => {
  const connections = synthetic(SCHEDULE, { groups: 16, perGroup: 4, seed: 3, lateness: 0 })
  const { share, trial } = plantLeak(connections, SCHEDULE, 0.58, OPTIONS)
  assert.ok(share > 0 && share < 0.25, `share ${share}`)
  assert.ok(Math.abs(trial.auc - 0.58) < 0.01, `AUC ${trial.auc}`)
  assert.ok(trial.p <= 0.01, `p ${trial.p}`)
})

test('a size that only real traffic has is detected, an additional acknowledgement in a QUIC packet is not', () => {
  const from = SCHEDULE.startsAt / 1000
  const recorded = (sizes: readonly number[]): Connection[] => {
    const down = Array.from({ length: 300 }, (_, at) => ({ time: from + at / 10, length: sizes[at % sizes.length]! }))
    return [{ group: 0, phase: 0, up: [], down }]
  }
  const compare = (protocol: 'tcp' | 'udp', one: readonly number[], other: readonly number[]): string[] =>
    onlyInOne(sizesOf(recorded(one), SCHEDULE, protocol), sizesOf(recorded(other), SCHEDULE, protocol))
  assert.deepEqual(compare('udp', [1472, 668], [1472, 676]), [])
  assert.deepEqual(compare('udp', [1472, 668], [1472, 668, 1290]), ['down: 1290 in the second alone'])
  assert.deepEqual(compare('tcp', [1448, 647], [1448, 648]), [
    'down: 647 in the first alone',
    'down: 648 in the second alone',
  ])
})

test('the windows of a block lie in it, and half of all are active', () => {
  const windows = windowsOf(SCHEDULE, 1)
  assert.equal(windows.length, 24)
  assert.equal(windows.filter(({ isActive }) => isActive).length, 12)
  for (const { from, to, isActive } of windows) {
    const block = Math.floor(from * 1000 - SCHEDULE.startsAt) / SCHEDULE.blockMs
    assert.equal(Math.floor(block), Math.floor((to * 1000 - SCHEDULE.startsAt) / SCHEDULE.blockMs))
    assert.equal(Math.floor(block) % 2 === 1, isActive)
  }
})

test('the area under the curve is 1 for a perfect order, 0 for the reverse, a half for ties', () => {
  const labels = Uint8Array.of(0, 0, 1, 1)
  assert.equal(areaUnderCurve(Float64Array.of(1, 2, 3, 4), labels), 1)
  assert.equal(areaUnderCurve(Float64Array.of(4, 3, 2, 1), labels), 0)
  assert.equal(areaUnderCurve(Float64Array.of(7, 7, 7, 7), labels), 0.5)
  assert.equal(areaUnderCurve(Float64Array.of(1, 3, 2, 4), labels), 0.75)
})

test('the classifier learns a sum of two columns and ignores one that never changes', () => {
  const chance = chanceOf(4)
  const rows = Array.from({ length: 400 }, () => [chance(), chance(), 5])
  const labels = Uint8Array.from(rows, ([a = 0, b = 0]) => Number(a + b > 1))
  const scores = learnAndScore(matrixOf(rows.slice(0, 200)), labels.slice(0, 200), matrixOf(rows.slice(200)))
  assert.ok(areaUnderCurve(scores, labels.slice(200)) > 0.98)
})

test('a capture is parsed: IPv4 and IPv6, TCP with options; the rest is skipped', () => {
  const arp = Buffer.alloc(42)
  arp.writeUInt16BE(0x0806, 12)
  const file = capture([
    [10.5, frame('v4', 'udp', 40_000, 4433, 1200)],
    [11, arp],
    [11.25, frame('v6', 'tcp', 5000, 50_000, 700)],
    [12, frame('v4', 'tcp', 50_000, 5000, 0)],
  ])
  const expected = [
    { time: 10.5, protocol: 'udp', from: 40_000, to: 4433, length: 1200, isRepeat: false },
    { time: 11.25, protocol: 'tcp', from: 5000, to: 50_000, length: 700, isRepeat: false },
    { time: 12, protocol: 'tcp', from: 50_000, to: 5000, length: 0, isRepeat: false },
  ]
  assert.deepEqual([...readPackets(file)], expected)
  assert.deepEqual([...readPackets(file.subarray(0, -1))], expected.slice(0, 2))
  assert.throws(() => [...readPackets(Buffer.from('not a capture, but long enough'))], RangeError)
})

test('TCP retransmissions are recognised, even when sequence numbers wrap, and count once', () => {
  const segment = (sequence: number, length: number): Buffer => {
    const bytes = frame('v4', 'tcp', 50_000, 5000, length)
    bytes.writeUInt32BE(sequence, 38)
    return bytes
  }
  const end = 2 ** 32
  const packets = [
    ...readPackets(
      capture([
        [10, segment(end - 1448, 1448)],
        [10.0001, segment(0, 647)],
        [10.005, segment(0, 647)],
        [10.006, frame('v4', 'udp', 50_000, 5000, 647)],
        [11, segment(647, 0)],
        [11.001, segment(647, 1448)],
      ]),
    ),
  ]
  assert.deepEqual(
    packets.map(({ isRepeat }) => isRepeat),
    [false, false, true, false, false, false],
  )
  const up = packets.filter(({ protocol }) => protocol === 'tcp')
  const schedule = { startsAt: 10_000, blockMs: 5000, blocks: 1 }
  assert.deepEqual(burstsOf([{ group: 0, phase: 0, up, down: [] }], schedule, 'up'), [2095, 1448])
})

/** A capture file of frames and their times. */
function capture(frames: readonly (readonly [number, Buffer])[]): Buffer {
  const head = Buffer.alloc(24)
  head.writeUInt32LE(0xa1b2c3d4, 0)
  head.writeUInt32LE(1, 20)
  const records = frames.flatMap(([time, bytes]) => {
    const record = Buffer.alloc(16)
    record.writeUInt32LE(Math.floor(time), 0)
    record.writeUInt32LE(Math.round((time % 1) * 1e6), 4)
    record.writeUInt32LE(bytes.length, 8)
    record.writeUInt32LE(bytes.length, 12)
    return [record, bytes]
  })
  return Buffer.concat([head, ...records])
}

/** An Ethernet frame; TCP with 12 bytes of options, as Linux sends it. */
function frame(version: 'v4' | 'v6', protocol: 'tcp' | 'udp', from: number, to: number, payload: number): Buffer {
  const network = version === 'v4' ? 20 : 40
  const transport = protocol === 'udp' ? 8 : 32
  const bytes = Buffer.alloc(14 + network + transport + payload)
  bytes.writeUInt16BE(version === 'v4' ? 0x0800 : 0x86dd, 12)
  const number = protocol === 'tcp' ? 6 : 17
  if (version === 'v4') {
    bytes.writeUInt8(0x45, 14)
    bytes.writeUInt16BE(bytes.length - 14, 16)
    bytes.writeUInt8(number, 23)
  } else {
    bytes.writeUInt16BE(bytes.length - 54, 18)
    bytes.writeUInt8(number, 20)
  }
  const at = 14 + network
  bytes.writeUInt16BE(from, at)
  bytes.writeUInt16BE(to, at + 2)
  if (protocol === 'tcp') bytes.writeUInt8((transport / 4) << 4, at + 12)
  return bytes
}

test('runs that each show little show it together, and runs that show nothing do not', () => {
  // As tables of the chi-squared distribution say: 18.307 is the 5 % point of 10 degrees of freedom.
  assert.ok(Math.abs(fisher(Array<number>(5).fill(Math.exp(-18.307 / 10))) - 0.05) < 1e-4)
  assert.ok(Math.abs(fisher([0.37]) - 0.37) < 1e-12)
  assert.ok(fisher([0.11, 0.057, 0.1, 0.08]) < 0.02)
  assert.ok(fisher([0.5, 0.2, 0.9, 0.6]) > 0.5)
  // By chance alone it is as often below a bound as the bound says.
  const chance = chanceOf(11)
  const low = Array.from({ length: 4000 }, () => fisher([chance(), chance(), chance(), chance()])).filter(
    (p) => p < 0.1,
  )
  assert.ok(Math.abs(low.length / 4000 - 0.1) < 0.02, `${low.length} of 4000`)
})

test('runs are averaged and pooled, each with its own tries', () => {
  const finding = (auc: number, p: number): Finding => ({ auc, p, seed: 1 }) as Finding
  const run = (seed: number, auc: number, p: number, leak: number): Findings => {
    const strict = finding(auc, p)
    const way = { profiles: { strict }, strictTries: [strict], plantedLeak: { share: 0.1, auc: 0.58, p: leak } }
    return { seed, ways: { quic: way, grpc: way } } as unknown as Findings
  }
  const first = run(6, 0.52, 0.2, 0.0025)
  assert.equal(pooled([first]), first)
  const both = pooled([first, run(106, 0.5, 0.6, 0.02)])
  const { profiles, strictTries, plantedLeak } = both.ways.grpc
  assert.deepEqual([profiles.strict?.auc, profiles.strict?.p], [0.51, 0.3744])
  assert.equal(strictTries.length, 2)
  assert.equal(plantedLeak?.p, 0.02, 'each run must find its leak')
  assert.deepEqual(both.runs, [{ seed: 6 }, { seed: 106 }])
})

test('docs/04 shows the last recording, and a new one replaces the table and nothing else', () => {
  const root = join(import.meta.dirname, '../..')
  const page = readFileSync(join(root, 'docs/04-traffic.md'), 'utf8')
  const findings = JSON.parse(readFileSync(join(root, 'bench/results/traffic.json'), 'utf8')) as Findings
  const table = tableOf(findings)
  assert.equal(withTable(page, table), page)
  const changed = withTable(page, '| none |')
  assert.equal(changed, page.replace(table, '| none |'))
  assert.equal(withTable(changed, table), page)
  assert.throws(() => withTable('Nothing.', table), /no place/)
})
