/** Runs with a limit on the size of files, meets it, has it lifted, and tells what the store did. */
import { execFileSync } from 'node:child_process'
import { openSqliteStore } from '../../src/store/sqlite/store.ts'
import { RETENTION, ChannelFixture, member } from './channel-fixture.ts'

const [path, prlimit] = process.argv.slice(2)
const store = await openSqliteStore({ path: path!, retention: RETENTION }, () => undefined)
const world = new ChannelFixture(store, [])
await world.found('alice')
let last = 0
let failure: unknown
while (failure === undefined) {
  try {
    const result = await world.say('alice', { ciphertext: new Uint8Array(50_000) })
    if ('index' in result) last = result.index
  } catch (error) {
    failure = (error as { code: string }).code
  }
}
const ill = !store.healthy()
const readable = (await world.read('alice', 0, { maxEntries: 1 })).last === last
const stillIll = !store.healthy()
execFileSync(prlimit!, [`--pid=${process.pid}`, '--fsize=unlimited'])
await world.run('sweep', { now: world.now })
const well = store.healthy()
const next = await world.say('alice')
await world.run('check', { actor: member('alice'), channel: world.channel })
await store.close()
console.log(
  JSON.stringify({ failure, ill, readable, stillIll, well, follows: 'index' in next && next.index === last + 1 }),
)
