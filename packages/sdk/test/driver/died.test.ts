import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StaticError } from '@static/protocol'
import { StaticChannelManager } from '../../src/public/manager.ts'
import { LyingSystem, RELAY } from '../support/lying-system.ts'
import { NAME, TestSystem } from '../support/test-system.ts'

test('a manager whose listener dies reports it to every waiting caller', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  let broken = false
  const owner = await world.manager('owner', {
    store: (store) => ({
      load: () => store.load(),
      inbox: (channel, after, limit) => store.inbox(channel, after, limit),
      poison: (id) => store.poison(id),
      onFailure: (listener) => store.onFailure(listener),
      requests: (id, after, limit) => store.requests(id, after, limit),
      answers: (id) => store.answers(id),
      fileDigests: (id, index) => store.fileDigests(id, index),
      uploadParts: (id, fileId) => store.uploadParts(id, fileId),
      kept: (id, before, limit) => store.kept(id, before, limit),
      keptSizes: (id, before, limit) => store.keptSizes(id, before, limit),
      checkpoint: () => store.checkpoint(),
      close: () => store.close(),
      write: (changes) => {
        if (broken) throw StaticError.of('store_corrupt', 'The disk is gone.')
        store.write(changes)
      },
    }),
  })
  const channel = await owner.create(NAME)
  broken = true
  await assert.rejects(channel.send('lost'), { code: 'store_corrupt' })
  const { code, message, cause } = await owner.died
  assert.equal(code, 'listener_died')
  assert.equal(message, 'The background listener has stopped: The disk is gone.')
  assert.equal((cause as StaticError).code, 'store_corrupt')
})

test('a listener that dies while the manager starts is reported when it has started', async (t) => {
  const world = LyingSystem.start(t)
  const parts = await world.parts('owner')
  let fail: ((error: StaticError) => void) | undefined
  parts.store.onFailure = (listener) => (fail = listener)
  const connect: typeof parts.connect = (...args) => {
    const { session, ready } = parts.connect(...args)
    return { session, ready: ready.then(() => fail?.(StaticError.of('store_failed', 'The disk is gone.'))) }
  }
  const owner = await StaticChannelManager.start({ ...parts, connect }, RELAY)
  t.after(() => owner.close())
  await assert.rejects(owner.invite(NAME), { code: 'listener_died' })
  assert.equal(((await owner.died).cause as StaticError).code, 'store_failed')
})
