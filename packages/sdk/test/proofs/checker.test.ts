/** The checker: when it fetches keys, and that proofs have no say in it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Checker } from '../../src/proofs/checker.ts'
import { type Fetched, type KeyState, NO_KEYS } from '../../src/proofs/key-state.ts'
import { parseRoot, type Root } from '../../src/proofs/roots.ts'
import type { Verdict } from '../../src/proofs/verdict.ts'
import { StaticError } from '@static/protocol'
import { randomNumbers, SEED } from '@static/testkit/random'
import { Agent, DOMAIN, domainFile, issuers, Issuer, job, lineOf, NOW, signedStatement, statement } from './scene.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const alice = new Agent()

/** A machine with a clock of its own, a disk and a network. */
class Machine {
  now = NOW
  roots: readonly Root[] = []
  files = new Map<string, Fetched>()
  readonly disk: Map<string, KeyState>
  readonly fetches: { readonly root: string; readonly minute: number }[] = []
  changes = 0
  isFull = false
  isUnreadable = false
  readonly failures: string[] = []
  hold: Promise<void> = Promise.resolve()
  readonly checker: Checker
  #version = 0
  #timers: { readonly at: number; readonly action: () => void }[] = []

  constructor(disk: Map<string, KeyState> = new Map(), seed = SEED) {
    this.disk = disk
    const chance = randomNumbers(seed)
    this.checker = new Checker(
      {
        roots: () => {
          if (this.isUnreadable) throw new StaticError('invalid_request', 'The list is damaged.')
          return this.roots
        },
        failed: ({ message }) => this.failures.push(message),
        load: ({ text }) => disk.get(text) ?? NO_KEYS,
        update: ({ text }, change) => {
          if (this.isFull) throw new StaticError('store_failed', 'The disk is full.')
          disk.set(text, change(disk.get(text) ?? NO_KEYS))
          this.touch()
        },
        version: () => `${this.#version}`,
        fetch: async ({ text }) => {
          this.fetches.push({ root: text, minute: Math.round((this.now - NOW) / MINUTE) })
          await this.hold
          return this.files.get(text) ?? { failed: 'no answer within 5 s' }
        },
        now: () => this.now,
        chance,
        later: (milliseconds, action) => {
          const timer = { at: this.now + milliseconds, action }
          this.#timers.push(timer)
          return () => (this.#timers = this.#timers.filter((each) => each !== timer))
        },
      },
      () => this.changes++,
    )
  }

  touch(): void {
    this.#version++
  }

  publish(root: Root, file: unknown, writtenAt?: number): void {
    const bytes = Buffer.from(JSON.stringify(file))
    this.files.set(root.text, writtenAt === undefined ? { bytes } : { bytes, writtenAt })
  }

  get pending(): number {
    return this.#timers.length
  }

  /** Lets time pass. */
  async pass(milliseconds: number): Promise<void> {
    const end = this.now + milliseconds
    for (;;) {
      const next = this.#timers.toSorted((one, two) => one.at - two.at)[0]
      if (next === undefined || next.at > end) break
      this.now = next.at
      this.#timers = this.#timers.filter((each) => each !== next)
      next.action()
      await new Promise(setImmediate)
    }
    this.now = end
  }

  minutesOf(root: Root): readonly number[] {
    return this.fetches.filter((fetch) => fetch.root === root.text).map(({ minute }) => minute)
  }

  async line(proof: Uint8Array): Promise<string> {
    return lineOf(await this.checker.check(proof, alice.context()))
  }
}

async function machineWithDomain(disk?: Map<string, KeyState>, seed?: number): Promise<Machine> {
  const machine = new Machine(disk, seed)
  machine.roots = [DOMAIN]
  machine.publish(DOMAIN, await domainFile([issuers.domain]))
  return machine
}

const goodProof = await alice.proof('statement', () => signedStatement(alice))

test('keys are fetched at the start and then every hour, more or less', async () => {
  const machine = await machineWithDomain()
  await machine.checker.start()
  assert.match(await machine.line(goodProof), /^checked/)
  await machine.pass(100 * HOUR)
  const minutes = machine.minutesOf(DOMAIN)
  const gaps = minutes.slice(1).map((minute, at) => minute - (minutes[at] ?? 0))
  assert.ok(
    gaps.every((gap) => gap >= 53 && gap <= 68),
    String(gaps),
  )
  assert.ok(new Set(gaps).size > 5, String(gaps))
  assert.equal(machine.changes, minutes.length)
  machine.checker.stop()
  assert.equal(machine.pending, 0)
})

test('the times of fetches are the same with a thousand proofs and with none', async () => {
  const [quiet, busy] = [await machineWithDomain(), await machineWithDomain()]
  await Promise.all([quiet.checker.start(), busy.checker.start()])
  const strangers = await Promise.all(
    Array.from({ length: 8 }, (_, at) =>
      alice.proof('statement', () => signedStatement(alice, { iss: `https://evil${at}.example` })),
    ),
  )
  for (let round = 0; round < 100; round++) {
    for (const proof of [goodProof, ...strangers, goodProof.slice(1)]) await busy.checker.check(proof, alice.context())
    await Promise.all([quiet.pass(7 * MINUTE), busy.pass(7 * MINUTE)])
  }
  assert.deepEqual(busy.fetches, quiet.fetches)
  assert.ok(busy.fetches.every(({ root }) => root === DOMAIN.text))
})

test('proofs with unknown keys bring one more fetch in an hour, later', async () => {
  const machine = await machineWithDomain()
  await machine.checker.start()
  const unknown = await Promise.all(
    Array.from({ length: 20 }, (_, at) =>
      alice.proof('statement', () => new Issuer(`u${at}`, 'EdDSA').sign(statement(alice), { typ: 'static-agent+jwt' })),
    ),
  )
  for (let minute = 0; minute < 45; minute++) {
    assert.match(await machine.line(unknown[minute % 20] ?? goodProof), /^unchecked: its key is not among/)
    await machine.pass(MINUTE)
  }
  const [first, second, ...more] = machine.minutesOf(DOMAIN)
  assert.ok(first === 0 && second !== undefined && second <= 6, String(second))
  assert.deepEqual(more, [])
})

/** A statement with a key that acme.example does not publish. */
async function madeUp(): Promise<Uint8Array> {
  return await alice.proof('statement', () =>
    new Issuer('made-up', 'EdDSA').sign(statement(alice), { typ: 'static-agent+jwt' }),
  )
}

/** The verdict on a proof that is checked every ten minutes, at the end. */
async function after(machine: Machine, milliseconds: number, proof: Uint8Array, last?: Verdict): Promise<Verdict> {
  const sinceOf = (verdict?: Verdict): number | undefined =>
    verdict?.state === 'checked' ? undefined : verdict?.unknownSince
  let verdict = await machine.checker.check(proof, alice.context(), sinceOf(last))
  for (let passed = 0; passed < milliseconds; passed += 10 * MINUTE) {
    await machine.pass(10 * MINUTE)
    verdict = await machine.checker.check(proof, alice.context(), sinceOf(verdict) ?? sinceOf(last))
  }
  return verdict
}

test('a key that its issuer does not publish within an hour makes the proof invalid', async () => {
  const machine = await machineWithDomain()
  await machine.checker.start()
  const early = await after(machine, 50 * MINUTE, await madeUp())
  assert.equal(lineOf(early), 'unchecked: its key is not among those of its issuer')
  assert.ok(machine.minutesOf(DOMAIN).length > 1, 'after one more fetch')
  const late = await after(machine, 90 * MINUTE, await madeUp(), early)
  assert.equal(lineOf(late), 'invalid: its key is not among those of its issuer')
})

test('no outage makes a proof with an unknown key invalid, nor keys that wait for a person', async () => {
  const machine = await machineWithDomain()
  await machine.checker.start()
  const next = new Issuer('c2', 'EdDSA')
  const proof = await alice.proof('statement', () => next.sign(statement(alice), { typ: 'static-agent+jwt' }))
  const first = await after(machine, 0, proof)
  machine.files.clear()
  const later = await after(machine, 10 * HOUR, proof, first)
  assert.equal(later.state, 'unchecked')
  machine.publish(DOMAIN, await domainFile([next]))
  const waiting = await after(machine, 10 * HOUR, proof, later)
  assert.equal(waiting.state, 'unchecked')
  machine.publish(DOMAIN, await domainFile([issuers.domain, next]))
  assert.equal((await after(machine, 2 * HOUR, proof, waiting)).state, 'checked')
})

test('a file of keys on this machine is as current as it was when it was written', async () => {
  const machine = new Machine()
  const root = parseRoot('acme.example', { keys: '/keys.json' })
  machine.roots = [root]
  machine.publish(root, await domainFile([issuers.domain]), NOW - HOUR)
  await machine.checker.start()
  const first = await after(machine, 10 * HOUR, await madeUp())
  assert.equal(first.state, 'unchecked')
  machine.publish(root, await domainFile([issuers.domain]), machine.now)
  assert.equal((await after(machine, 2 * HOUR, await madeUp(), first)).state, 'invalid')
})

test('the fetch for an unknown key does not show when the proof came', async () => {
  const unknown = new Issuer('u', 'EdDSA').sign(statement(alice), { typ: 'static-agent+jwt' })
  const proof = await alice.proof('statement', () => unknown)
  const delays = new Set<number | undefined>()
  for (let seed = 1; seed <= 12; seed++) {
    const machine = await machineWithDomain(new Map(), seed)
    await machine.checker.start()
    await machine.line(proof)
    await machine.pass(10 * MINUTE)
    delays.add(machine.minutesOf(DOMAIN)[1])
  }
  assert.ok(delays.size >= 3 && !delays.has(undefined), [...delays].join(' '))
})

test('a new key of an issuer is found without a proof that waits for it', async () => {
  const machine = await machineWithDomain()
  await machine.checker.start()
  const next = new Issuer('c2', 'EdDSA')
  machine.publish(DOMAIN, await domainFile([issuers.domain, next]))
  const proof = await alice.proof('statement', () => next.sign(statement(alice), { typ: 'static-agent+jwt' }))
  assert.match(await machine.line(proof), /^unchecked/)
  const before = machine.changes
  await machine.pass(7 * MINUTE)
  assert.ok(machine.changes > before)
  assert.match(await machine.line(proof), /^checked/)
})

test('an issuer that is out of reach makes verdicts lapse after a day, and they come back with it', async () => {
  const machine = await machineWithDomain()
  await machine.checker.start()
  const verdict = await machine.checker.check(goodProof, alice.context())
  assert.ok(verdict.state === 'checked')
  machine.files.clear()
  await machine.pass(23 * HOUR)
  assert.equal(machine.checker.standing(verdict).state, 'checked')
  await machine.pass(2 * HOUR)
  assert.match(lineOf(machine.checker.standing(verdict)), /^lapsed: its keys have been out of reach/)
  assert.match(await machine.line(goodProof), /^unchecked: its keys have been out of reach/)
  machine.publish(DOMAIN, await domainFile([issuers.domain]))
  await machine.pass(2 * HOUR)
  assert.equal(machine.checker.standing(verdict).state, 'checked')
})

test('a disk that is full, or a list that is damaged, stops neither the agent nor its schedule', async () => {
  const machine = await machineWithDomain()
  await machine.checker.start()
  const verdict = await machine.checker.check(goodProof, alice.context())
  assert.ok(verdict.state === 'checked')
  machine.isFull = true
  await machine.pass(23 * HOUR)
  assert.equal(machine.checker.standing(verdict).state, 'checked')
  await machine.pass(2 * HOUR)
  assert.match(lineOf(machine.checker.standing(verdict)), /^lapsed/)
  assert.deepEqual(machine.failures, ['The disk is full.'])
  machine.isFull = false
  await machine.pass(2 * HOUR)
  assert.equal(machine.checker.standing(verdict).state, 'checked')
  const jobs = new Machine()
  jobs.roots = [parseRoot('github:acme/app')]
  jobs.publish(jobs.roots[0] ?? DOMAIN, { keys: [await issuers.github.jwk()] })
  await jobs.checker.start()
  jobs.isFull = true
  const proof = await alice.proof('token', (audience) => issuers.github.sign(job(audience)))
  assert.match(await jobs.line(proof), /^unchecked: the trust list cannot be written/)
})

test('a full disk does not hide that a key is unknown, and since when', async () => {
  const machine = await machineWithDomain()
  await machine.checker.start()
  machine.isFull = true
  const verdict = await machine.checker.check(await madeUp(), alice.context(), NOW - 5)
  assert.equal(lineOf(verdict), 'unchecked: its key is not among those of its issuer')
  assert.equal(verdict.state !== 'checked' && verdict.unknownSince, NOW - 5)
})

test('a trust list that cannot be read is told once, until it can be read', async () => {
  const machine = await machineWithDomain()
  machine.isUnreadable = true
  await assert.rejects(machine.checker.start(), /The list is damaged/)
  await machine.pass(HOUR)
  assert.deepEqual(machine.failures, ['The list is damaged.'])
  machine.isUnreadable = false
  await machine.pass(2 * MINUTE)
  assert.match(await machine.line(goodProof), /^checked/)
  machine.isUnreadable = true
  machine.touch()
  await machine.pass(HOUR)
  assert.equal(machine.failures.length, 2)
})

test('an agent that has just started waits for its keys, and one that has stopped changes nothing', async () => {
  const machine = await machineWithDomain()
  const fetching = Promise.withResolvers<void>()
  machine.hold = fetching.promise
  const started = machine.checker.start()
  const line = machine.line(goodProof)
  await new Promise(setImmediate)
  fetching.resolve()
  assert.match(await line, /^checked/)
  await started
  const stopped = await machineWithDomain()
  const late = Promise.withResolvers<void>()
  stopped.hold = late.promise
  const starting = stopped.checker.start()
  stopped.checker.stop()
  late.resolve()
  await starting
  assert.deepEqual([stopped.disk.size, stopped.changes], [0, 0])
})

test('another process of the account fetches for all, and its changes are seen', async () => {
  const disk = new Map<string, KeyState>()
  const one = await machineWithDomain(disk)
  await one.checker.start()
  const two = await machineWithDomain(disk, SEED + 1)
  two.now = NOW + 30 * MINUTE
  await two.checker.start()
  assert.deepEqual(two.fetches, [])
  const verdict = await two.checker.check(goodProof, alice.context())
  assert.ok(verdict.state === 'checked')
  two.roots = []
  two.touch()
  const { changes } = two
  assert.equal(await two.line(goodProof), 'unchecked: no root', 'at once for the next proof')
  two.roots = [DOMAIN]
  two.touch()
  assert.match(await two.line(goodProof), /^checked/)
  two.roots = []
  two.touch()
  assert.match(await two.line(goodProof), /^unchecked/)
  // Stored verdicts are compared with them in the next round.
  await two.pass(2 * MINUTE)
  assert.equal(two.changes, changes + 1)
  assert.equal(lineOf(two.checker.standing(verdict)), 'unchecked: no root')
})

test('a clock that is set back stops neither the schedule nor the end of a statement', async () => {
  const machine = await machineWithDomain()
  await machine.checker.start()
  const short = await alice.proof('statement', () => signedStatement(alice, { exp: NOW / 1000 + 3600 }))
  assert.match(await machine.line(short), /^checked/)
  await machine.pass(3 * HOUR)
  assert.match(await machine.line(short), /^lapsed/)
  machine.now -= 48 * HOUR
  const before = machine.fetches.length
  assert.match(await machine.line(short), /^lapsed/)
  // The timers of a machine do not follow its clock.
  await machine.checker.start()
  assert.equal(machine.fetches.length, before + 1)
  assert.match(await machine.line(short), /^lapsed/)
})

test('the first proof decides which owner and repository a name stands for', async () => {
  const all = parseRoot('github:acme/*')
  const disk = new Map<string, KeyState>()
  const machine = new Machine(disk)
  machine.roots = [all]
  machine.publish(all, { keys: [await issuers.github.jwk()] })
  await machine.checker.start()
  const proof = async (more: object): Promise<Uint8Array> =>
    await alice.proof('token', (audience) => issuers.github.sign(job(audience, more)))
  const [first, second] = [
    await proof({}),
    await proof({ repository: 'acme/other', repository_id: '5', repository_owner_id: '6' }),
  ]
  // At once: the second must not pass before the first is on disk.
  const lines = await Promise.all([machine.line(first), machine.line(second)])
  assert.deepEqual(lines.map((line) => line.split(' ')[0]).toSorted(), ['checked', 'invalid:'])
  const [repository = ''] = Object.keys(disk.get(all.text)?.ids ?? {}).filter((name) => name !== 'acme')
  const proven = lines[0]?.startsWith('checked') ? 'acme/app' : 'acme/other'
  assert.equal(repository, proven)
  await machine.pass(2 * HOUR)
  assert.equal(Object.keys(disk.get(all.text)?.ids ?? {}).length, 2)
})

test('a name stands for the same ids with each root for it, also once the others are removed', async () => {
  const [all, app] = [parseRoot('github:acme/*'), parseRoot('github:acme/app')]
  const machine = new Machine()
  for (const root of [all, app]) machine.publish(root, { keys: [await issuers.github.jwk()] })
  machine.roots = [all, app]
  await machine.checker.start()
  const proof = async (more: object): Promise<Uint8Array> =>
    await alice.proof('token', (audience) => issuers.github.sign(job(audience, more)))
  assert.match(await machine.line(await proof({})), /^checked/)
  const taken = await proof({ repository_id: '5' })
  for (const roots of [[all], [app], [app, all]]) {
    machine.roots = roots
    machine.touch()
    assert.match(await machine.line(taken), /^invalid: acme\/app is not the one/, roots.map(({ text }) => text).join())
  }
})
