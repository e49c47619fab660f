/**
 * Agents and a relay in a deterministic world, with crashes at every boundary between them and their disks and network;
 * with a relay that is honest, a channel that changes hands, a relay that lies, or a member that attacks the others. STATIC_SEED=… begins with
 * another seed, STATIC_LONG=1 plays many more of them, STATIC_SEEDS=… so many, STATIC_TELL=1 prints the story of each.
 *
 * No write is torn here: the stores in memory have no files, and a write of an agent or an operation of a relay is one
 * transaction that survives a crash as a whole or not at all, which is what their databases promise. Whether they keep
 * that promise when a power cut leaves any part of what was not synced, and what the ring does with a torn last record,
 * is for the power-loss proof (`npm run proof -- power`), on real files.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { seedOf } from '@static/testkit/random'
import { World } from '@static/testkit/world'
import { IS_WHOLE, WHOLE_ONLY } from '@static/testkit/whole'
import { Betrayal } from './betrayal.ts'
import { History } from './history.ts'
import { LyingHistory } from './lying.ts'

interface Story {
  readonly counts: Record<string, number>
  run(): Promise<void>
}

interface Mode {
  readonly about: string
  readonly begin: (world: World) => Story
  /** How many are played in `npm test`, and how many if there is more time. */
  readonly seeds: number
  readonly longSeeds: number
  /** What it shows, by what has happened how often. */
  readonly promise: (counts: Record<string, number>) => string
}

const FIRST = seedOf(1)
const IS_LONG = process.env['STATIC_LONG'] === '1'
/** After how many histories a long run says how far it is. */
const PROGRESS = 100

/** Those of `npm test` take 10 s in all. */
const MODES: readonly Mode[] = [
  {
    about: 'honest histories with crashes',
    begin: (world) => new History(world),
    seeds: IS_WHOLE ? 24 : 12,
    longSeeds: 2000,
    promise: ({ killed = 0, 'relay killed': relay = 0, sent, joined }) =>
      `T13: SEEDS, ${killed + relay} kills, ${sent} messages, ${joined} joins; the same seed gives the same history, byte for byte`,
  },
  {
    about: 'histories of a channel that changes hands',
    begin: (world) => new History(world, { changesHands: true }),
    seeds: IS_WHOLE ? 12 : 3,
    longSeeds: 500,
    promise: ({ killed = 0, 'relay killed': relay = 0, 'taken over': taken }) =>
      `T13: SEEDS in which a standby takes the channel over ${taken} times, with ${killed + relay} kills: group and relay name one owner, whose account has its name and its bytes`,
  },
  {
    about: 'histories with a relay that lies',
    begin: (world) => new LyingHistory(world),
    seeds: IS_WHOLE ? 8 : 4,
    longSeeds: 500,
    promise: ({ lies = 0, forked = 0, 'rolled back': old = 0 }) =>
      `T6: SEEDS with a relay that tells ${lies} lies, shows ${forked} forks and goes back ${old} times: 0 crashes, 0 messages doubled, forged or under another name, 0 keys used twice, 0 differences unnoticed`,
  },
  {
    about: 'histories whose members prove who runs them',
    begin: (world) => new History(world, { proves: true }),
    seeds: IS_WHOLE ? 12 : 3,
    longSeeds: 500,
    promise: ({ killed = 0, 'relay killed': relay = 0, proven = 0 }) =>
      `T13: SEEDS in which members prove who they are, with ${killed + relay} kills and one that copies: ${proven} verdicts, 0 wrong; nobody who proved it removed`,
  },
  {
    about: 'histories with proofs and a relay that lies',
    begin: (world) => new LyingHistory(world, { proves: true }),
    seeds: IS_WHOLE ? 6 : 2,
    longSeeds: 500,
    promise: ({ lies = 0, proven = 0 }) =>
      `T6: SEEDS in which members prove who they are to a relay that tells ${lies} lies: ${proven} verdicts, 0 wrong`,
  },
  {
    about: 'histories with a member that betrays',
    begin: (world) => new Betrayal(world),
    seeds: IS_WHOLE ? 10 : 5,
    longSeeds: 500,
    promise: ({ attacks = 0, betrayed = 0, expelled = 0 }) =>
      `T7: SEEDS with ${attacks} attacks by a member with keys that is added ${betrayed} times: 0 crashes, 0 disagreements, nobody else blamed, removed all ${expelled} times`,
  },
]

async function play(
  mode: Mode,
  seed: number,
  lines = false,
): Promise<{ world: World; counts: Record<string, number> }> {
  return await World.live(
    seed,
    async (world) => {
      const history = mode.begin(world)
      try {
        await history.run()
      } catch (cause) {
        throw new Error(`STATIC_SEED=${seed}, ${mode.about}: ${String(cause)}\n${world.story.join('\n')}`, { cause })
      } finally {
        if (process.env['STATIC_TELL'] === '1') process.stderr.write(`${world.story.join('\n')}\n`)
      }
      return { world, counts: history.counts }
    },
    { lines },
  )
}

for (const mode of MODES) {
  const isFirst = mode === MODES[0]
  test(`the same seed gives the same history, byte for byte: ${mode.about}`, isFirst ? {} : WHOLE_ONLY, async () => {
    const [one, other] = [await play(mode, FIRST, true), await play(mode, FIRST, true)]
    const at = one.world.lines.findIndex((line, at) => line !== other.world.lines[at])
    assert.equal(at, -1, `line ${at}: ${one.world.lines[at]} and ${other.world.lines[at]}`)
    assert.equal(one.world.digest, other.world.digest)
  })

  const usual = IS_LONG ? mode.longSeeds : mode.seeds
  const seeds = Number(process.env['STATIC_SEEDS'] ?? usual)
  test(`${seeds} ${mode.about}, from seed ${FIRST} on`, { timeout: 4 * 3_600_000 }, async (t) => {
    const total: Record<string, number> = {}
    const failures: unknown[] = []
    for (let seed = FIRST; seed < FIRST + seeds; seed++) {
      try {
        const { counts } = await play(mode, seed)
        for (const [what, times] of Object.entries(counts)) total[what] = (total[what] ?? 0) + times
      } catch (error) {
        failures.push(error)
        process.stderr.write(`seed ${seed} fails\n`)
        if (process.env['STATIC_ALL'] !== '1') break
      }
      const played = seed - FIRST + 1
      if (!IS_LONG || played % PROGRESS !== 0) continue
      process.stderr.write(`${played} of ${seeds} ${mode.about}, ${failures.length} failed\n`)
    }
    t.diagnostic(JSON.stringify(total))
    t.diagnostic(`promise ${mode.promise(total).replace('SEEDS', `${seeds} histories from seed ${FIRST} on`)}`)
    if (failures.length > 0) throw new AggregateError(failures, `${failures.length} of ${seeds} histories`)
  })
}
