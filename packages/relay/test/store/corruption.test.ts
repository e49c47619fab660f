/**
 * Bits flipped in the files of the SQLite engine (trust.md, T3): whatever is answered is as it was written.
 * `npm run proof -- corruption` flips more of them.
 */
import assert from 'node:assert/strict'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { StaticError } from '@static/protocol'
import { randomBelow, SEED } from '@static/testkit/random'
import { openSqliteStore } from '../../src/store/sqlite/store.ts'
import { accepted, ChannelFixture, crashed, hex16, member, RETENTION, text, welcomeFor } from './channel-fixture.ts'

/** In each file. */
const FLIPS = 6 * Number(process.env['STATIC_FLIPS'] ?? 1)
/** Few, so that every table is a good part of the whole. */
const MESSAGES = 8
const REFUSED = 'refused'
/** Answers that say that there is nothing. */
const ABSENT = [REFUSED, '[]', '{}', 'null']

type Question = (world: ChannelFixture) => Promise<unknown>

/** What members and others ask for. */
const QUESTIONS: Readonly<Record<string, Question>> = {
  entries: async (world) => (await world.read('bob', 1)).entries,
  stand: (world) => world.stand('alice'),
  standing: (world) => world.standing('bob'),
  Welcomes: (world) => world.waiting('dave'),
  invite: (world) => world.run('invite', { id: hex16('one') }),
}

async function open(path: string): Promise<ChannelFixture> {
  return new ChannelFixture(await openSqliteStore({ path, retention: RETENTION }, () => undefined), [])
}

/** Answers as text, or undefined where the store says that it is damaged. */
async function answersOf(path: string, where: string): Promise<Readonly<Record<string, string | undefined>>> {
  let world: ChannelFixture
  try {
    world = await open(path)
  } catch (error) {
    assert.ok(error instanceof StaticError, `${where}: ${String(error)}`)
    return {}
  }
  try {
    const answers: Record<string, string | undefined> = {}
    for (const [name, ask] of Object.entries(QUESTIONS)) {
      answers[name] = await ask(world).then(textOf, (error: unknown) => {
        if (error instanceof StaticError) return undefined
        // Refused, as for a channel that does not exist.
        if (error instanceof assert.AssertionError) return REFUSED
        throw new Error(`${where}: ${name}`, { cause: error })
      })
    }
    return answers
  } finally {
    await world.store.close().catch(() => {})
  }
}

function textOf(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) => {
    if (part instanceof Uint8Array) return Buffer.from(part).toString('hex')
    return typeof part === 'bigint' ? String(part) : part
  })
}

test('a flipped bit in the files of a relay is never served', async (t) => {
  t.diagnostic(`seed ${SEED}`)
  const below = randomBelow(SEED)
  const base = mkdtempSync(join(tmpdir(), 'static-corruption-'))
  t.after(() => rmSync(base, { recursive: true, force: true }))
  const path = join(base, 'relay.sqlite')
  const world = await open(path)
  await world.found('alice', 'bob', 'carol')
  await world.chatter('bob', MESSAGES)
  accepted(await world.commit('alice', { adds: ['dave'], welcomes: [welcomeFor('dave')], groupInfo: text('g') }))
  const { channel, now } = world
  const invite = {
    id: hex16('one'),
    channel,
    admissionKey: text('k'),
    expiresAt: now + 1e9,
    maxUses: 5,
    members: false,
  }
  await world.run('registerInvite', { actor: member('alice'), invite, maxInvites: 10, now })
  // As a killed relay leaves it, with its write-ahead log.
  const killed = await crashed(world.store, path, 'killed.sqlite')
  await world.store.close()
  const truth = await answersOf(copied(killed, join(base, 'truth.sqlite')), 'as it was')
  assert.ok(Object.values(truth).every((answer) => answer !== undefined))

  let [flips, noticed, hidden] = [0, 0, 0]
  for (const [source, suffix] of [
    [path, ''],
    [killed, ''],
    [killed, '-wal'],
  ] as const) {
    for (let round = 0; round < FLIPS; round++) {
      const copy = copied(source, join(base, `copy-${flips++}.sqlite`))
      const bytes = readFileSync(copy + suffix)
      // Most of a file is empty, and flips there say nothing.
      let bit = below(bytes.length * 8)
      while (bytes[bit >> 3] === 0) bit = below(bytes.length * 8)
      bytes[bit >> 3]! ^= 1 << (bit & 7)
      writeFileSync(copy + suffix, bytes)
      const where = `seed ${SEED}, bit ${bit} of ${source === killed ? 'the killed' : 'the closed'} relay's file${suffix}`
      const answers = await answersOf(copy, where)
      if (Object.keys(truth).some((name) => answers[name] === undefined)) noticed++
      for (const [name, answer] of Object.entries(answers)) {
        if (answer === undefined || answer === truth[name]) continue
        // A damaged index hides a row: it is not found, which is not false, but not noticed either.
        if (ABSENT.includes(answer) && name !== 'entries') {
          hidden++
          continue
        }
        // SQLite ends a log at its first damaged record: then the relay is one of before, and agents notice that.
        assert.equal(suffix, '-wal', `${where}: ${name}: ${answer}`)
        if (name === 'entries' && answer !== REFUSED)
          assert.ok(truth[name]?.startsWith(answer.slice(0, -1)), `${where}: ${name}`)
      }
    }
  }
  const rest = `${hidden} times a row was not found, the others changed nothing`
  t.diagnostic(`promise T3: relay: ${flips} flipped bits, ${noticed} noticed, ${rest}, 0 served`)
})

function copied(from: string, to: string): string {
  for (const suffix of ['', '-wal']) if (existsSync(from + suffix)) cpSync(from + suffix, to + suffix)
  return to
}
