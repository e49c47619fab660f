/**
 * A member that holds the group's keys and does not keep to the rules. Each attack is dealt to a life; `STATIC_SEED`
 * repeats one, `STATIC_LIVES` plays more (`npm run proof -- member`).
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { randomBelow, SEED } from '@static/testkit/random'
import { ADMISSIONS } from './admissions.ts'
import type { Attack } from './attack.ts'
import { COMMITS } from './commits.ts'
import { HANDS } from './hands.ts'
import { LEAVES } from './leaves.ts'
import { Life } from './life.ts'
import { MESSAGES, RECEIPTS } from './messages.ts'
import { PROOFS } from './proofs.ts'
import { WELCOMES } from './welcomes.ts'

const ATTACKS: readonly Attack[] = [
  ...COMMITS,
  ...HANDS,
  ...MESSAGES,
  ...RECEIPTS,
  ...PROOFS,
  ...LEAVES,
  ...WELCOMES,
  ...ADMISSIONS,
]
/** Attacks of one life. */
const HAND = 8
/** Lives of one hand: an attack that is not possible in one may be in the next. */
const MOST_LIVES = 12
const LIVES = Number(process.env['STATIC_LIVES'] ?? 0)

/** All attacks in some order, so that a round of lives sees each of them. */
function deal(seed: number): Attack[][] {
  const below = randomBelow(seed)
  const deck = [...ATTACKS]
  for (let at = deck.length - 1; at > 0; at--) {
    const other = below(at + 1)
    const [one, two] = [deck[at], deck[other]]
    if (one && two) [deck[at], deck[other]] = [two, one]
  }
  const hands: Attack[][] = []
  while (deck.length > 0) hands.push(deck.splice(0, HAND))
  return hands
}

/** Plays lives until all these attacks have happened. Returns how many that were. */
async function play(seed: number, hand: readonly Attack[]): Promise<number> {
  const left = [...hand]
  let happened = 0
  for (let lives = 0; left.length > 0 && lives < MOST_LIVES; lives++) {
    const tried: string[] = []
    try {
      // Alone with the owner, or beside others: who can do what differs.
      const life = await Life.start(seed + lives, lives === 0 && seed % 4 === 0 ? 0 : 1 + ((seed + lives) % 3))
      for (let turns = left.length; turns > 0; turns--) {
        const attack = left.shift()
        if (!attack) break
        for (let round = 0; round < 2; round++) await life.live()
        tried.push(attack[0])
        const effect = await life.suffer(attack)
        if (effect) happened++
        else left.push(attack)
        if (effect?.last) break
      }
      await life.end()
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error)
      throw new Error(`STATIC_SEED=${SEED}, life ${seed}, after ${tried.join(' → ')}: ${text}`, { cause: error })
    }
  }
  assert.deepEqual(
    left.map(([name]) => name),
    [],
    'attacks that were never possible',
  )
  return happened
}

let [attacks, lives] = [0, 0]
for (let round = 0; lives === 0 || lives < LIVES; round++) {
  const seed = SEED + 1000 * round
  for (const [at, hand] of deal(seed).entries()) {
    lives++
    test(`members agree, continue and remove one that attacks them, seed ${seed + at}`, async () => {
      attacks += await play(seed + at, hand)
    })
  }
}

test('the attacks are counted', { skip: LIVES === 0 }, (t) => {
  const counted = `${attacks} attacks of ${ATTACKS.length} kinds by a member with keys in ${lives} lives`
  t.diagnostic(`promise T7: ${counted}: 0 crashes, 0 disagreements, always removed`)
  assert.ok(attacks >= lives)
})
