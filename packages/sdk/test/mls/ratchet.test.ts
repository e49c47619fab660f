import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import {
  createApplicationMessage,
  encodeMlsMessage,
  processPrivateMessage,
  emptyPskIndex,
  type ClientState,
} from 'ts-mls'
import fc from 'fast-check'
import { encodeGroupContext } from 'ts-mls/groupContext.js'
import { ed25519, type Signer } from '@static/node/ed25519'
import { hmac } from '../../src/mls/hash.ts'
import {
  decodeRow,
  encodeRow,
  EpochCipher,
  type ExpectedSender,
  nextSecret,
  type RatchetRow,
} from '../../src/mls/ratchet.ts'
import { decodeMessage } from '../../src/mls/ts-mls/message.ts'
import { inside } from '../../src/mls/ts-mls/state.ts'
import { SEED } from '@static/testkit/random'
import { crypto } from './attacker.ts'
import { type Agent, channelOf, engine, hex, text, words } from './support.ts'

const { provider } = crypto

async function pair(): Promise<[Agent, Agent]> {
  const { agents } = await channelOf('owner', 'ann')
  return agents as [Agent, Agent]
}

/** The library's own state of an agent's epoch, with the application ratchets put back. */
function libraryState({ group, rows }: Agent): ClientState {
  const { state } = inside(group)
  const secretTree = state.secretTree.map((node, at) => {
    const row = rows.get(at / 2)
    if (row === undefined) return node
    const { generation, secret } = row
    return { ...node, application: { generation, secret: Uint8Array.from(secret), unusedGenerations: {} } }
  })
  return { ...state, secretTree }
}

test('the library reads what the cipher writes, and the reverse', async () => {
  const [owner, ann] = await pair()
  let atAnn = libraryState(ann)
  for (const [size, data] of [
    [0, ''],
    [5, ''],
    [1024, 'authenticated'],
    [20_000, 'x'.repeat(100)],
  ] as const) {
    const payload = randomBytes(size)
    const message = decodeMessage('mls_private_message', owner.send(payload, text(data)))!.privateMessage
    const read = await processPrivateMessage(atAnn, message, emptyPskIndex, provider)
    assert.ok(read.kind === 'applicationMessage')
    assert.equal(hex(read.message), hex(payload))
    assert.equal(words(message.authenticatedData), data)
    atAnn = read.newState
  }

  let atOwner = libraryState(owner)
  const rows = new Map(ann.rows)
  rows.set(engine.facts(owner.group).own.leaf, owner.rows.get(engine.facts(owner.group).own.leaf)!)
  for (const [size, data] of [
    [3, ''],
    [1024, 'authenticated'],
    [70_000, ''],
  ] as const) {
    const payload = randomBytes(size)
    const written = await createApplicationMessage(atOwner, payload, provider, text(data))
    atOwner = written.newState
    const { privateMessage } = written
    const bytes = encodeMlsMessage({ version: 'mls10', wireformat: 'mls_private_message', privateMessage })
    const opened = engine.open(ann.group, rows, bytes, { steps: 1024 })
    assert.equal(hex(opened.plaintext), hex(payload))
    assert.equal(words(opened.authenticatedData), data)
    assert.equal(opened.leaf, engine.facts(owner.group).own.leaf)
    rows.set(opened.leaf, opened.row)
  }
})

test('a message can be opened again only with its own key', async () => {
  const [owner, ann] = await pair()
  const sealed = owner.seal('one')
  const opened = ann.open(sealed.ciphertext)
  assert.equal(hex(opened.messageKey), hex(sealed.messageKey))
  assert.equal(opened.messageKey.length, 28)
  assert.equal(words(engine.reopen(sealed.ciphertext, opened.messageKey)), 'one')
  const other = owner.seal('two')
  assert.throws(() => engine.reopen(other.ciphertext, opened.messageKey), { code: 'decryption_failure' })
  assert.throws(() => engine.reopen(new Uint8Array(3), opened.messageKey), { code: 'decryption_failure' })
})

test('replayed, late, reflected and changed messages are refused, and the next one is read', async () => {
  const [owner, ann] = await pair()
  const [first, second, third, fourth] = ['a', 'b', 'c', 'd'].map((word) => owner.send(word)) as [
    Uint8Array,
    Uint8Array,
    Uint8Array,
    Uint8Array,
  ]
  assert.equal(ann.read(first), 'a')
  assert.throws(() => ann.open(first), { code: 'decryption_failure' })
  for (const at of [0, 3, 10, 20, 29, 32, 60, 70, 500, third.length - 1]) {
    const changed = Uint8Array.from(third)
    changed[at] = (changed[at] ?? 0) ^ 1
    assert.throws(() => ann.open(changed), { name: 'MlsError' }, `byte ${at}`)
  }
  for (const length of [0, 4, 30, 31, 100, third.length - 1])
    assert.throws(() => ann.open(third.subarray(0, length)), { code: 'decryption_failure' })
  assert.throws(() => owner.open(third), { code: 'decryption_failure' }, 'its own message')
  assert.equal(ann.read(third), 'c')
  assert.throws(() => ann.open(second), { code: 'decryption_failure' }, 'after a later one')
  assert.equal(ann.read(fourth), 'd')
})

test('nothing is left of a skipped generation, or of an opened one', async () => {
  const [owner, ann] = await pair()
  const { leaf } = engine.facts(owner.group).own
  const past: RatchetRow[] = []
  const messages = Array.from({ length: 6 }, (_, at) => {
    past.push(owner.rows.get(leaf)!)
    return owner.send(`message ${at}`)
  })
  // Generation 0 never arrives; 1 to 4 are read, 5 is not.
  for (const message of messages.slice(1, 5)) ann.open(message)
  const stored = [...[...ann.rows.values()].map(encodeRow), engine.encodeGroup(ann.group)].map(hex).join(' ')
  for (const { generation, secret } of past.slice(0, 5)) {
    assert.ok(!stored.includes(hex(secret)), `the secret of generation ${generation}`)
    const key = hex(engineKey(secret, generation))
    assert.ok(!stored.includes(key), `the key of generation ${generation}`)
  }
  const row = ann.rows.get(leaf)!
  assert.equal(row.generation, 5)
  assert.equal(hex(row.secret), hex(past[5]!.secret))
  for (const message of messages.slice(0, 5)) assert.throws(() => ann.open(message), { code: 'decryption_failure' })
})

/** The AEAD key of a generation. */
function engineKey(secret: Uint8Array, generation: number): Uint8Array {
  const info = Buffer.concat([Buffer.from([0, 16, 11]), Buffer.from('MLS 1.0 key'), Buffer.alloc(5), Buffer.from([1])])
  info[14] = 4
  info.writeUInt32BE(generation, 15)
  return hmac(secret, info).subarray(0, 16)
}

test('nothing is hashed for a message that is too far ahead, or from another leaf than expected', async () => {
  const [owner, ann] = await pair()
  const { leaf } = engine.facts(owner.group).own
  const ahead = (steps: number): Uint8Array => {
    let { generation, secret, ...row } = owner.rows.get(leaf)!
    for (let step = 0; step < steps; step++) secret = nextSecret(secret, generation++)
    return engine.encrypt(owner.group, new Map([[leaf, { ...row, generation, secret }]]), text('far')).ciphertext
  }
  // Hashing the leaf asks for the secret.
  const row = ann.rows.get(leaf)!
  let asked = 0
  const counting = {
    ...row,
    get secret() {
      asked++
      return row.secret
    },
  }
  const open = (message: Uint8Array, expected: ExpectedSender): string =>
    words(engine.open(ann.group, new Map([[leaf, counting]]), message, expected).plaintext)
  const message = ahead(1025)
  for (const expected of [{ leaf, steps: 1024 }, { leaf: leaf + 1, steps: 2000 }, { steps: 0 }]) {
    assert.throws(() => open(message, expected), { code: 'decryption_failure' })
  }
  // The sender data of anybody: 32 bits are claimed, and nothing is behind them.
  const claim = engine.encrypt(
    owner.group,
    new Map([[leaf, { ...row, generation: 0xffff_fffe }]]),
    text('x'),
  ).ciphertext
  assert.throws(() => open(claim, { leaf, steps: 32_768 }), { message: /4294967294 generations ahead/ })
  assert.equal(asked, 0)
  assert.equal(open(message, { leaf, steps: 1025 }), 'far')
  assert.ok(asked > 0)
})

test('a member cannot send as another, and a non-member cannot send at all', async () => {
  const { agents } = await channelOf('owner', 'ann', 'bob')
  const [owner, ann, bob] = agents as [Agent, Agent, Agent]
  // Ann knows every ratchet of the epoch, so only the signature is in her way.
  const { leaf } = engine.facts(bob.group).own
  const { groupContext, keySchedule } = inside(ann.group).state
  const forge = (sign: Signer): Uint8Array =>
    new EpochCipher({
      suite: crypto.suite,
      groupId: groupContext.groupId,
      epoch: groupContext.epoch,
      groupContext: encodeGroupContext(groupContext),
      senderDataSecret: keySchedule.senderDataSecret,
      leaf,
      sign,
      verifier: () => undefined,
    }).seal(ann.rows.get(leaf)!, text('I am Bob')).ciphertext
  assert.throws(() => owner.open(forge(ed25519.signer(ann.key))), { message: /not signed by its sender/ })
  assert.equal(owner.read(forge(ed25519.signer(bob.key))), 'I am Bob')
  const { agents: strangers } = await channelOf('owner', 'eve')
  assert.throws(() => owner.open(strangers[1]!.send('x')), { code: 'decryption_failure' })
  const pending = await owner.commit()
  owner.adopt(pending)
  assert.throws(() => owner.open(bob.send('late')), { code: 'epoch_mismatch' })
  assert.throws(() => ann.open(owner.send('early')), { code: 'epoch_mismatch' })
  assert.throws(() => engine.encrypt(owner.group, ann.rows, text('x')), { code: 'epoch_mismatch' })
})

test('rows survive the database, whatever they contain', () => {
  fc.assert(
    fc.property(
      fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }),
      fc.nat({ max: 0xffff_ffff }),
      fc.nat({ max: 0xffff_ffff }),
      fc.uint8Array({ minLength: 32, maxLength: 32 }),
      (epoch, leaf, generation, secret) => {
        const row = { epoch, leaf, generation, secret }
        assert.equal(encodeRow(row).length, 48)
        assert.deepEqual(decodeRow(encodeRow(row)), row)
      },
    ),
    { seed: SEED },
  )
  assert.throws(() => decodeRow(new Uint8Array(47)), { code: 'store_corrupt' })
})
