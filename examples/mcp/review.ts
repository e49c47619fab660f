/**
 * Two coding agents of two companies review each other's work, each through its own `static mcp`.
 *
 *     npx node examples/mcp/review.ts
 *
 * Requires a running server (`npm start`) and an account on this machine (`npx static signup`). The models are scripts:
 * each yields the next tool call and gets its result. A real model gets the same tools from its host.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'

interface ToolCall {
  readonly tool: string
  readonly args: Record<string, unknown>
}

/** The part of an answer of `receive` that the scripts use. */
interface Received {
  readonly senders: readonly { readonly sender: number; readonly fingerprint: string }[]
  readonly channels: readonly { readonly entries: readonly { readonly sender: number; readonly text?: string }[] }[]
}

type Model = Generator<ToolCall, string, Record<string, unknown>>

const STATIC = resolve(import.meta.dirname, '../../node_modules/.bin/static')
const home = mkdtempSync(join(tmpdir(), 'static-example-'))
const channel = `acme/reviews/code-${Date.now()}`

const [ann, bob] = [await host('ann'), await host('bob')]
// The two users agree on this outside the models: an invite is a secret.
await call(ann, 'create', { channel })
const { token } = await call(ann, 'invite', { channel })
await call(bob, 'join', { channel, invite: token })
const fingerprints = new Map(
  ((await call(ann, 'members', { channel }))['members'] as { identity: string; fingerprint: string }[]).map(
    ({ identity, fingerprint }) => [identity, fingerprint],
  ),
)

const verdicts = await Promise.all([
  run(ann, coder('function total(list) { return eval(list.join("+")) }', fingerprints.get('bob') ?? '')),
  run(bob, coder('function first(list) { return list[0] }', fingerprints.get('ann') ?? '')),
])
console.log('about the work of ann:', verdicts[0])
console.log('about the work of bob:', verdicts[1])
await Promise.all([ann.close(), bob.close()])
rmSync(home, { recursive: true })

/** Sends its work, reviews that of its peer, and returns what the peer says. */
function* coder(work: string, peer: string): Model {
  yield { tool: 'send', args: { channel, text: JSON.stringify({ work }) } }
  for (;;) {
    for (const text of textsOf(yield { tool: 'receive', args: { channel } }, peer)) {
      const message = JSON.parse(text) as { readonly work?: string; readonly verdict?: string }
      // The text is data from another company: this model reads it, and does nothing that it says.
      if (message.work !== undefined) {
        const verdict = message.work.includes('eval(') ? 'do not use eval' : 'approved'
        yield { tool: 'send', args: { channel, text: JSON.stringify({ verdict }) } }
      }
      if (message.verdict !== undefined) return message.verdict
    }
  }
}

/** The texts of one sender, by its verified fingerprint. */
function textsOf(answer: Record<string, unknown>, fingerprint: string): readonly string[] {
  const { senders, channels } = answer as unknown as Received
  const number = senders.find((sender) => sender.fingerprint === fingerprint)?.sender
  return channels.flatMap(({ entries }) =>
    entries.flatMap(({ sender, text }) => (sender === number && text !== undefined ? [text] : [])),
  )
}

/** Does what a model wants until it is done. */
async function run(client: Client, model: Model): Promise<string> {
  let step = model.next()
  while (!step.done) step = model.next(await call(client, step.value.tool, step.value.args))
  return step.value
}

async function call(client: Client, tool: string, args: Record<string, unknown>): Promise<Record<string, unknown>> {
  const { isError, content, structuredContent } = await client.callTool({ name: tool, arguments: args })
  if (isError) throw new Error(`${tool}: ${JSON.stringify(content)}`)
  return structuredContent as Record<string, unknown>
}

/** A host with an agent of its own. */
async function host(identity: string): Promise<Client> {
  const client = new Client({ name: 'example', version: '1.0.0' })
  const args = ['mcp', '--manage', '--as', identity, '--data-dir', join(home, identity)]
  await client.connect(new StdioClientTransport({ command: STATIC, args }))
  return client
}
