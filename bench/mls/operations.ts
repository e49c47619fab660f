/**
 * A child of bench/mls.ts: what joining, adding, removing and following cost, in milliseconds of CPU, and how long
 * the results are. One sample each, in a tree whose parents are filled by commits of four members.
 */
import { engine, makeJoiners, makeOwner } from './channel.ts'

const now = Date.now()

async function cost<Result>(work: () => Promise<Result> | Result): Promise<[Result, number]> {
  const before = process.cpuUsage()
  const result = await work()
  const { user, system } = process.cpuUsage(before)
  return [result, (user + system) / 1000]
}

async function measure(size: number): Promise<object> {
  const owner = await makeOwner()
  const joiners = await makeJoiners(size - 1)
  const last = joiners.pop()
  if (last === undefined) throw new Error('nobody to add')
  const speakers = joiners.slice(0, 3)
  let batchAdd = 0
  if (joiners.length > 0) {
    const adds = joiners.map(({ own }) => own.keyPackage)
    const [pending, spent] = await cost(() => engine.commit(owner.group, { adds, now }))
    batchAdd = spent
    owner.enter(pending.next)
    for (const [at, { member, own }] of speakers.entries()) {
      const welcome = pending.welcomes[at]?.welcome ?? new Uint8Array()
      member.enter(await engine.join(welcome, own.privatePart, member.key, {}))
    }
  }
  const present = [owner, ...speakers.map(({ member }) => member)]
  for (const sender of present) {
    const pending = await engine.commit(sender.group, { now })
    sender.enter(pending.next)
    for (const other of present) if (other !== sender) await other.follow(sender, pending)
  }

  const { member, own } = last
  const follower = present[1]
  const [added, add] = await cost(() => engine.commit(owner.group, { adds: [own.keyPackage], now }))
  const welcome = added.welcomes[0]?.welcome ?? new Uint8Array()
  const [joined, join] = await cost(() => engine.join(welcome, own.privatePart, member.key, {}))
  const followAdd = follower && (await cost(() => follower.process(owner, added)))[1]
  member.enter(joined)
  owner.enter(added.next)
  await follower?.follow(owner, added)

  const [rotated, rotate] = await cost(() => engine.commit(owner.group, { now }))
  const followRotate = (await cost(() => member.process(owner, rotated)))[1]
  const [removed, remove] = await cost(() => engine.commit(owner.group, { removes: [member.agentId], now }))
  const followRemove = follower && (await cost(() => follower.process(owner, removed)))[1]
  const [bytes, encode] = await cost(() => engine.encodeGroup(owner.group))
  const decode = (await cost(() => engine.decodeGroup(bytes, owner.key)))[1]
  return {
    size,
    milliseconds: {
      batchAdd,
      add,
      join,
      followAdd,
      rotate,
      followRotate,
      remove,
      followRemove,
      encodeGroup: encode,
      decodeGroup: decode,
    },
    bytes: {
      addCommit: added.commit.length,
      welcome: welcome.length,
      rotateCommit: rotated.commit.length,
      removeCommit: removed.commit.length,
      group: bytes.length,
      keyPackage: own.keyPackage.length,
    },
  }
}

// The first run warms up.
await measure(10)
const results: object[] = []
for (const size of [2, 10, 100, 250]) results.push(await measure(size))
console.log(JSON.stringify(results))
