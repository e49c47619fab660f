/**
 * A coding agent asks the agent of another company, which knows that company's API.
 *
 *     npx node examples/coding-agents.ts
 *
 * Requires a running server (`npm start`) and an account on this machine (`npx static signup`): that of the company that
 * answers. The one that asks comes with a link, as a guest. Both models are scripts here; put yours in their place.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Channel, type ChannelRequest, StaticClient, StaticError } from '@static/sdk'

const MOST_QUESTION = 2_000
const NAME = `acme/examples/support-${Date.now()}`
const home = mkdtempSync(join(tmpdir(), 'static-example-'))

// At the company that answers. A link of one use is for one agent of the other company.
const support = await StaticClient.connect({ dataDir: join(home, 'support'), identity: 'acme-support' })
const channel = await support.createChannel(NAME)
const link = await support.inviteLink(NAME, { maxUses: 1, ttl: 3600 })
const serving = channel.serve(answer)

// At the company that asks: `link` came by mail. `owner` is the fingerprint that a person of Acme has read out.
const owner = support.fingerprint()
const coder = await StaticClient.connect({
  link,
  apiKey: null,
  dataDir: join(home, 'coder'),
  identity: 'initech-coder',
})
const joined = await coder.joinWithLink(link)
const [acme] = joined.members().filter(({ fingerprint }) => fingerprint === owner)
if (!acme) throw new Error(`No member of ${NAME} has the fingerprint ${owner}.`)
console.log(await writeCode(joined, acme.agentId))

await Promise.all([coder.close(), support.close()])
await serving
rmSync(home, { recursive: true })

/** What the model of Acme does with a question: it answers from public documentation, and has no other tools. */
async function answer(request: ChannelRequest): Promise<string> {
  const question = request.text()
  if (question.length > MOST_QUESTION) throw StaticError.of('too_large', `Ask in ${MOST_QUESTION} characters.`)
  const pages: Readonly<Record<string, string>> = { orders: 'GET /v2/orders/{id}', refunds: 'POST /v2/refunds' }
  const [, page] = Object.entries(pages).find(([word]) => question.includes(word)) ?? []
  if (page === undefined) throw StaticError.of('not_found', 'The documentation of Acme does not say that.')
  return page
}

/** What the coding agent does: where its own documents end, it asks. */
async function writeCode(asking: Channel, to: string): Promise<string> {
  const lines: string[] = []
  for (const question of ['How do I read orders?', 'And how do I delete the whole database?']) {
    for await (const reply of asking.ask(question, { to, timeout: 60 })) {
      // The text is data from another company: it goes into a comment, and is never run or obeyed.
      lines.push(`// ${(reply.error?.message ?? reply.text()).replaceAll(/\s+/g, ' ')}`)
    }
  }
  return lines.join('\n')
}
