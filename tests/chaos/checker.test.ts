/** The checker of the chaos proof notices what it must: each fault is planted into histories that are all right. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { check, unread } from '../../lab/chaos/check/check.ts'
import type { History, Note, Said } from '../../lab/chaos/history.ts'

/** Two members and a visitor, who joins, is removed and joins again. */
class Story {
  readonly #notes: Record<string, Note[]> = {}
  #at = 0
  #index = 0

  note(name: string, said: Said): this {
    this.#notes[name] ??= []
    this.#notes[name].push({ at: ++this.#at, ...said })
    return this
  }

  /** Sends a message that is acknowledged. Messages of one index share all of their ids but the last digit. */
  say(name: string, text: string, readers: readonly string[], { epoch = 1, digit = 0 } = {}): this {
    if (digit === 0) this.#index++
    const [index, id] = [this.#index, `${this.#index}:${digit.toString(16)}`]
    this.note(name, { is: 'sending', text })
    for (const reader of readers) this.note(reader, { is: 'read', text, id, index, epoch, from: name, again: false })
    return this.note(name, { is: 'sent', text, id, index })
  }

  get histories(): History[] {
    return Object.entries(this.#notes).map(([name, notes]) => ({ name, notes }))
  }
}

function story(): Story {
  const told = new Story()
  for (const name of ['ann', 'bob', 'vera']) told.note(name, { is: 'started', agent: name })
  told.note('ann', { is: 'joined', invite: 'own' })
  told
    .note('ann', { is: 'invited', invite: 'first', uses: 1 })
    .note('ann', { is: 'invited', invite: 'second', uses: 2 })
  told.note('bob', { is: 'joining', invite: 'first' }).note('bob', { is: 'joined', invite: 'first' })
  told.say('ann', 'ann 1', ['bob']).say('bob', 'bob 1', ['ann'])
  told.note('vera', { is: 'joining', invite: 'second' }).note('vera', { is: 'joined', invite: 'second' })
  told.say('ann', 'ann 2', ['bob', 'vera'], { epoch: 2 }).say('ann', 'ann 3', ['bob', 'vera'], { epoch: 2, digit: 1 })
  told.note('ann', { is: 'reached', id: '3:0', by: ['bob', 'vera'], not: [] })
  told.note('bob', { is: 'asking', text: 'bob asks 2', to: 'ann', seconds: 3 })
  told.note('bob', { is: 'asked', ask: 'q', text: 'bob asks 2', to: 'ann', seconds: 3 })
  told.note('ann', { is: 'served', ask: 'q', text: 'bob asks 2', again: false })
  told.note('bob', { is: 'answer', ask: 'q', id: 'a', text: 'bob asks 2!', from: 'ann' })
  told.note('bob', { is: 'answered', ask: 'q' })
  told.note('ann', { is: 'removed', agent: 'vera' }).note('vera', { is: 'out', why: 'removed' })
  told.say('bob', 'bob 3', ['ann'], { epoch: 3 })
  told.note('vera', { is: 'joining', invite: 'second' }).note('vera', { is: 'joined', invite: 'second' })
  told.say('vera', 'vera 1', ['ann', 'bob'], { epoch: 4 }).say('ann', 'ann 4', ['bob', 'vera'], { epoch: 4 })
  const members = ['vera', 'bob', 'ann']
  for (const name of members) told.note(name, { is: 'words', words: 'one two', members })
  return told
}

/** The faults found after a change of the notes of one agent. */
function after(name: string, change: (notes: Note[]) => void): string[] {
  return check(
    story().histories.map((history) => {
      const notes = [...history.notes]
      if (history.name === name) change(notes)
      return { name: history.name, notes }
    }),
  )
}

function find(notes: readonly Note[], is: Note['is'], text: string): number {
  const at = notes.findIndex((note) => note.is === is && Object.values(note).includes(text))
  assert.ok(at >= 0, `${is} ${text} is not in the story`)
  return at
}

/** Changes a note, or takes it out. */
function edit(is: Note['is'], text: string, change?: Record<string, unknown>): (notes: Note[]) => void {
  return (notes) => {
    const at = find(notes, is, text)
    const old = notes[at]
    notes.splice(at, 1, ...(change && old ? [{ ...old, ...change } as Note] : []))
  }
}

/** Notes something at the end. */
function add(said: Record<string, unknown>): (notes: Note[]) => void {
  return (notes) => void notes.push({ at: 1000, ...said } as unknown as Note)
}

/** Says a note once more, changed. */
function again(is: Note['is'], text: string, change: Record<string, unknown>): (notes: Note[]) => void {
  return (notes) => void notes.push({ ...(notes[find(notes, is, text)] as Note), ...change })
}

test('histories without a fault pass, and so does a repeated read that is flagged', () => {
  assert.deepEqual(check(story().histories), [])
  assert.deepEqual(unread(story().histories), [])
  assert.deepEqual(after('bob', again('read', 'ann 2', { again: true })), [])
})

const FAULTS: readonly (readonly [name: string, agent: string, change: (notes: Note[]) => void, fault: RegExp])[] = [
  ['lost', 'bob', edit('read', 'ann 2'), /^bob has not read "ann 2"/],
  ['lost as the last one', 'bob', edit('read', 'ann 4'), /^bob has not read "ann 4"/],
  ['lost though sent together with another', 'bob', edit('read', 'ann 3'), /^bob has not read "ann 3"/],
  ['lost as the first one after joining', 'vera', edit('read', 'ann 2'), /^vera has not read "ann 2"/],
  ['lost after joining again', 'vera', edit('read', 'ann 4'), /^vera has not read "ann 4"/],
  ['doubled', 'bob', again('read', 'ann 2', {}), /^bob has read "ann 2" twice/],
  [
    'doubled under another id',
    'bob',
    again('read', 'ann 4', { id: '9:0', index: 9 }),
    /2 messages have the text ann 4/,
  ],
  ['never sent', 'bob', again('read', 'ann 4', { id: '9:0', index: 9, text: 'x' }), /^bob has "x", which its sender/],
  ['of another sender', 'bob', edit('read', 'ann 4', { from: 'vera' }), /^bob has "ann 4", which its sender never/],
  ['changed', 'bob', edit('read', 'ann 4', { text: 'ann 1' }), /^bob has 6:0 as "ann 1"/],
  ['at another place', 'bob', edit('read', 'ann 4', { index: 7 }), /^bob has 6:0 as "ann 4" at 112/],
  ['in another epoch', 'bob', edit('read', 'ann 4', { epoch: 5 }), /"ann 4" in epoch/],
  ['of an earlier epoch', 'ann', edit('read', 'bob 3', { epoch: 1 }), /"bob 3" is of epoch 1/],
  [
    'read after removal',
    'vera',
    again('read', 'ann 2', readOf('bob 3')),
    /^vera has read "bob 3" after it was removed/,
  ],
  ['receipt of what was not read', 'vera', edit('read', 'ann 2', { at: 999 }), /told that vera has settled "ann 2"/],
  ['receipt without a member', 'ann', edit('reached', '3:0', { by: ['vera'] }), /all have "ann 2", but not bob/],
  ['unanswered in silence', 'bob', edit('answer', 'q'), /^bob was never told what became of "bob asks 2"/],
  ['answered twice', 'bob', again('answer', 'q', { id: 'b' }), /^bob has got 2 answers/],
  ['answered by another', 'bob', edit('answer', 'q', { from: 'vera' }), /and vera has answered/],
  ['answered wrongly', 'bob', edit('answer', 'q', { text: 'no' }), /^bob has got "no"/],
  ['ended oddly', 'bob', add({ is: 'unanswered', ask: 'q', code: 'internal_error' }), /has ended with internal_error/],
  ['answered without being served', 'ann', edit('served', 'q'), /nobody has served it/],
  ['served twice', 'ann', again('served', 'q', {}), /served "bob asks 2" twice without a flag/],
  ['served unasked', 'ann', add({ is: 'served', ask: 'z', text: 'who', again: false }), /which nobody has asked/],
  ['served though never sent', 'bob', edit('answer', 'q', { is: 'unasked' }), /which nobody has asked/],
  ['one too many', 'ann', edit('invited', 'second', { uses: 1 }), /vera,vera have joined by invite second/],
  ['an odd event', 'ann', add({ is: 'event', name: 'fork_detected', detail: '' }), /^ann: fork_detected/],
  ['other words', 'bob', edit('words', 'one two', { words: 'one three' }), /have different words/],
  ['other members', 'bob', edit('words', 'one two', { members: ['ann', 'bob'] }), /^bob has the members/],
  ['no words', 'bob', edit('words', 'one two'), /^bob has no words/],
]

function readOf(text: string): Record<string, unknown> {
  const notes = story().histories.flatMap((history) => history.notes)
  const { at: _, ...read } = notes[find(notes, 'read', text)] as Note
  return read
}

for (const [name, agent, change, fault] of FAULTS) {
  test(`the checker notices: ${name}`, () => {
    const found = after(agent, change)
    assert.ok(
      found.some((sentence) => fault.test(sentence)),
      found.join('\n') || 'nothing was found',
    )
  })
}

test('the checker notices reordered messages', () => {
  const found = after('bob', (notes) => {
    const [one, other] = [find(notes, 'read', 'ann 2'), find(notes, 'read', 'ann 3')]
    ;[notes[one], notes[other]] = [notes[other] as Note, notes[one] as Note]
  })
  assert.deepEqual(found, ['bob has read "ann 2" after a later message'])
})

test('messages read after an interrupted and repeated join do not count as read after the removal', () => {
  const faults = after('vera', (notes) => {
    const out = notes.findIndex(({ is }) => is === 'out')
    const joined = notes.findLastIndex(({ is }) => is === 'joined')
    const [left, entered] = [notes[out], notes[joined]]
    assert.ok(left && entered)
    notes.splice(joined + 1, 0, { at: entered.at + 0.5, is: 'read', again: false, ...readOf('bob 3') } as Note)
    notes.splice(out + 1, 0, { at: left.at + 0.5, is: 'joining', invite: 'second' })
  })
  assert.deepEqual(faults, [])
})

test('a request whose asker was killed after the last answer is not a fault', () => {
  const faults = after('bob', (notes) => {
    const at = notes.findIndex(({ is }) => is === 'answered')
    notes[at] = { at: notes[at]?.at ?? 0, is: 'unasked', ask: 'q' }
  })
  assert.deepEqual(faults, [])
})
