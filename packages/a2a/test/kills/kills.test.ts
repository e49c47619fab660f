/** Both sides of A2A over a channel are killed: each task is executed, answered once, and flagged if it ran twice. */
import assert from 'node:assert/strict'
import { type ChildProcess, fork } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { programFile } from '@static/testkit/bundle'
import { type Below, randomBelow, SEED } from '@static/testkit/random'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { channelOf, openPlace } from '../support.ts'
import type { Party } from './party-child.ts'

/** 500 and 100 in `npm run proof -- a2a`. */
const TASKS = Number(process.env['STATIC_TASKS'] ?? 12)
const KILLS = Number(process.env['STATIC_KILLS'] ?? 2)
/** A process is killed after between 1 and so many events. */
const MOST_EVENTS = 4
const NAME = 'acme/a2a/kills'
const PROGRAM: string = programFile('a2a-child', join(import.meta.dirname, 'party-child.ts'))

/** A process that is killed and started again. */
class Mortal {
  readonly #party: Party
  readonly #below: Below
  readonly #over: PromiseWithResolvers<void>
  #child: ChildProcess | undefined
  #isOver = false
  kills = 0

  constructor(party: Party, below: Below, over: PromiseWithResolvers<void>) {
    this.#party = party
    this.#below = below
    this.#over = over
    void over.promise.then(
      () => this.end(),
      () => this.end(),
    )
    this.#start()
  }

  end(): void {
    this.#isOver = true
    this.#child?.kill('SIGKILL')
  }

  #start(): void {
    const child = fork(PROGRAM, [JSON.stringify(this.#party)])
    this.#child = child
    let left = 1 + this.#below(MOST_EVENTS)
    child.on('message', (word) => {
      if (word === 'done') this.#over.resolve()
      else if (this.kills < KILLS && --left === 0) {
        this.kills++
        child.kill('SIGKILL')
      }
    })
    child.on('exit', (code, signal) => {
      if (this.#isOver) return
      if (signal === 'SIGKILL') this.#start()
      else this.#over.reject(new Error(`The ${this.#party.role} ended with ${code ?? signal}.`))
    })
  }
}

function linesOf(file: string): string[][] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => line.split(' '))
}

test(`client and server are killed ${KILLS} times each in ${TASKS} tasks, seed ${SEED}`, async (t) => {
  await using place = await openPlace()
  using workspace = await makeWorkspace()
  const client = await place.agent('client')
  const server = await place.agent('server')
  await channelOf(NAME, client, server)
  const { agentId: to } = server
  await client.close()
  await server.close()

  const below = randomBelow(SEED)
  const over = Promise.withResolvers<void>()
  const party = (role: Party['role']): Party => {
    return { role, options: place.options(role), name: NAME, to, tasks: TASKS, file: join(workspace.path, role) }
  }
  const [asking, serving] = (['client', 'server'] as const).map((role) => new Mortal(party(role), below, over))
  await over.promise

  const names = Array.from({ length: TASKS }, (_, at) => `task-${at}`).sort()
  const answers = new Map<string, Set<string>>()
  for (const [word, task = '', id = ''] of linesOf(party('client').file))
    if (word === 'answered') answers.set(task, (answers.get(task) ?? new Set()).add(id))
  assert.deepEqual([...answers.keys()].sort(), names, 'none is lost')
  // The same answer may be given again after a restart; another one may not.
  for (const [task, ids] of answers) assert.equal(ids.size, 1, `${task} was answered by ${[...ids].join()}`)

  const runs = new Map<string, { readonly request: string; readonly redelivered: string }[]>()
  for (const [, task = '', request = '', redelivered = ''] of linesOf(party('server').file))
    runs.set(task, [...(runs.get(task) ?? []), { request, redelivered }])
  assert.deepEqual([...runs.keys()].sort(), names, 'each was executed')
  let twice = 0
  for (const [task, [first, ...again]] of runs) {
    twice += Number(again.length > 0)
    for (const { request, redelivered } of again) {
      assert.equal(redelivered, 'true', `${task} ran again without a flag`)
      assert.equal(request, first?.request, `${task} was asked for twice`)
    }
  }
  assert.deepEqual([asking?.kills, serving?.kills], [KILLS, KILLS])
  t.diagnostic(`${twice} of ${TASKS} tasks ran more than once`)
  t.diagnostic(`promise T1: A2A, seed ${SEED}: ${TASKS} tasks over ${2 * KILLS} kills, 0 lost, each answered once`)
})
