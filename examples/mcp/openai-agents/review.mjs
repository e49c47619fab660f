/**
 * A reviewer with the OpenAI Agents SDK: its tools come from `static mcp`. Its model is a script; leave `model` out, and
 * set OPENAI_API_KEY, for a real one.
 *
 *     npx node examples/mcp/openai-agents/review.mjs
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { Agent, MCPServerStdio, run, setTracingDisabled, Usage } from '@openai/agents'

setTracingDisabled(true)
const STATIC = process.env.STATIC_PROGRAM ?? resolve(import.meta.dirname, '../../../node_modules/.bin/static')
const home = mkdtempSync(join(tmpdir(), 'static-example-'))
const channel = `acme/reviews/agents-${Date.now()}`
const server = async (identity) => {
  const args = ['mcp', '--manage', '--as', identity, '--data-dir', join(home, identity)]
  const started = new MCPServerStdio({ name: identity, command: STATIC, args, timeout: 60_000 })
  await started.connect()
  return started
}
const [author, reviewer] = [await server('author'), await server('reviewer')]
const call = async (to, tool, args) => {
  const [block] = await to.callTool(tool, args)
  return JSON.parse(block.text)
}

// The users of both agents set up the channel.
await call(author, 'create', { channel })
const { token } = await call(author, 'invite', { channel })
await call(reviewer, 'join', { channel, invite: token })
await call(author, 'send', { channel, text: 'function total(list) { return eval(list.join("+")) }' })

/** The script: receive, answer, done. */
const model = {
  getResponse({ input }) {
    const last = Array.isArray(input) ? input.at(-1) : undefined
    const calls = (name, args) => ({
      type: 'function_call',
      callId: `call-${input.length}`,
      name,
      arguments: JSON.stringify(args),
      status: 'completed',
    })
    let output = calls('receive', { channel })
    if (last?.type === 'function_call_result' && last.name === 'receive') {
      const text = JSON.stringify(last.output).includes('eval(') ? 'do not use eval' : 'approved'
      output = calls('send', { channel, text })
    } else if (last?.type === 'function_call_result') {
      const content = [{ type: 'output_text', text: 'reviewed' }]
      output = { type: 'message', role: 'assistant', status: 'completed', content }
    }
    return Promise.resolve({ usage: new Usage(), output: [output] })
  },
}

const agent = new Agent({ name: 'Reviewer', instructions: 'Review what arrives.', model, mcpServers: [reviewer] })
const { finalOutput } = await run(agent, 'Review what arrives.')
console.log('the reviewer:', finalOutput)
const { channels } = await call(author, 'receive', { channel })
console.log('the author hears:', channels[0].entries[0].text)
await Promise.all([author.close(), reviewer.close()])
rmSync(home, { recursive: true })
