/**
 * Sends, commits, acknowledges and sweeps until it is killed. Every line says what it is about to do or what was
 * answered; a line is out before anything else happens.
 */
import { sayAtOnce } from '@static/testkit/crash/say'
import { crashingStore, type FailAt } from '@static/testkit/crash/store-steps'
import { randomNumbers } from '@static/testkit/random'
import { RETENTION, ChannelFixture, member, sha256 } from './channel-fixture.ts'

export interface Said {
  readonly what: 'sending' | 'sent' | 'committing' | 'committed' | 'acknowledging'
  readonly sender?: string
  readonly counter?: number
  readonly slot?: number
  readonly id?: string
  readonly index?: number
}

const [path, seed, point, count] = process.argv.slice(2)
const say = (said: Said): void => sayAtOnce(JSON.stringify(said))
const random = randomNumbers(Number(seed))
const failAt = { point: point as FailAt['point'], count: Number(count) }
const store = await crashingStore(path!, failAt)({ retention: RETENTION, onDeath: () => undefined }, () => undefined)
const world = new ChannelFixture(store, [])
const newId = (label: string): Uint8Array => sha256(`${seed} ${label}`).subarray(0, 16)
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

for (let round = 0; ; round++) {
  const { head, lastIndex } = await world.stand('alice')
  const work: Promise<unknown>[] = []
  for (const sender of ['alice', 'bob']) {
    const { lastCounter } = await world.stand(sender)
    const burst = Math.floor(random() * 12)
    for (let counter = lastCounter + 1; counter <= lastCounter + burst; counter++) {
      const messageId = newId(`${sender} ${round} ${counter}`)
      const ciphertext = new Uint8Array(Math.floor(random() * 3000) + 1)
      say({ what: 'sending', sender, counter, slot: head, id: hex(messageId) })
      work.push(
        world.run('append', world.message(sender, { slot: head, counter, messageId, ciphertext })).then((result) => {
          if ('index' in result) say({ what: 'sent', id: hex(messageId), index: result.index })
        }),
      )
    }
  }
  if (random() < 0.3) {
    const messageId = newId(`commit ${round}`)
    say({ what: 'committing', slot: head, id: hex(messageId) })
    const request = world.commitRequest('alice', { slot: head, messageId })
    work.push(
      world.run('commit', request).then((result) => {
        if ('index' in result) say({ what: 'committed', id: hex(messageId), index: result.index })
      }),
    )
  }
  if (random() < 0.5) {
    const index = Math.max(0, lastIndex - Math.floor(random() * 40))
    say({ what: 'acknowledging', index })
    work.push(world.ack('alice', index), world.ack('bob', index))
  }
  if (random() < 0.4) {
    world.now += 10_000
    work.push(
      world.run('sweep', { now: world.now }),
      world.run('check', { actor: member('alice'), channel: world.channel }),
    )
  }
  await Promise.all(work)
}
