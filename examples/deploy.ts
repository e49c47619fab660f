/**
 * A deploy that waits for two of three people, and executes what they have approved, once.
 *
 *     npx node examples/deploy.ts acme/ops/deploys '{"deploy":"1.4.2"}' ada,ben,cy
 *
 * Each of the three, a member of the channel, decides with `npx static channel decide`. Killed while it waits, and
 * started again with the same plan, it goes on waiting for the same approval.
 */
import { StaticClient } from '@static/sdk'

const [name = 'acme/ops/deploys', plan = '{"deploy":"1.4.2"}', people = 'ada,ben,cy'] = process.argv.slice(2)

const client = await StaticClient.connect({ identity: 'deployer' })
const channel = client.channel(name)

/** The bytes to execute; undefined if they are not approved. */
async function approved(): Promise<Uint8Array | undefined> {
  const before = channel.approvals().find(({ isOwn, isSpent, state, need, action }) => {
    const isOpen = isOwn && !isSpent && (state === 'pending' || state === 'approved')
    return isOpen && need === 2 && Buffer.from(action).toString() === plan
  })
  if (before) return (await before.outcome()) === 'approved' ? await before.spend() : undefined
  const wish = { title: 'Deploy', text: 'All tests pass.', risk: 'medium', action: plan }
  const result = await channel.requestApproval(wish, { from: people.split(','), need: 2, timeout: 900 })
  return result.decision === 'approved' ? result.action : undefined
}

const action = await approved()
// Never `plan`: only the bytes that people have signed.
console.log(action ? `deploying ${Buffer.from(action).toString()}` : 'not approved')
process.exitCode = action ? 0 : 1
await client.close()
