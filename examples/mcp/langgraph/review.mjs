/**
 * A reviewer in LangGraph: its tools come from `static mcp` through the MCP adapters. Its model is a script; put a chat
 * model with `bindTools(tools)` in its place.
 *
 *     npx node examples/mcp/langgraph/review.mjs
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { AIMessage, HumanMessage } from '@langchain/core/messages'
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { ToolNode } from '@langchain/langgraph/prebuilt'
import { MultiServerMCPClient } from '@langchain/mcp-adapters'

const STATIC = process.env.STATIC_PROGRAM ?? resolve(import.meta.dirname, '../../../node_modules/.bin/static')
const home = mkdtempSync(join(tmpdir(), 'static-example-'))
const channel = `acme/reviews/langgraph-${Date.now()}`
const server = (identity) => ({
  transport: 'stdio',
  command: STATIC,
  args: ['mcp', '--manage', '--as', identity, '--data-dir', join(home, identity)],
})
const client = new MultiServerMCPClient({ author: server('author'), reviewer: server('reviewer') })
const author = Object.fromEntries((await client.getTools('author')).map((tool) => [tool.name, tool]))
const tools = await client.getTools('reviewer')
const reviewer = Object.fromEntries(tools.map((tool) => [tool.name, tool]))
/** The answer of a tool, which the adapters wrap. */
const answerOf = (result) => {
  const value = typeof result === 'string' ? JSON.parse(result) : result
  const block = Array.isArray(value) ? value[0] : value
  return block.type === 'text' ? JSON.parse(block.text) : block
}

// The users of both agents set up the channel.
await author.create.invoke({ channel })
const { token } = answerOf(await author.invite.invoke({ channel }))
await reviewer.join.invoke({ channel, invite: token })
await author.send.invoke({ channel, text: 'function first(list) { return list[0] }' })

/** The script: receive, answer, done. */
function model({ messages }) {
  const last = messages.at(-1)
  const calls = (name, args) => ({
    messages: [
      new AIMessage({ content: '', tool_calls: [{ name, args, id: `call-${messages.length}`, type: 'tool_call' }] }),
    ],
  })
  if (last.name === 'receive') {
    const { channels } = answerOf(last.content)
    const work = channels.flatMap(({ entries }) => entries).find(({ text }) => text !== undefined)?.text ?? ''
    return calls('send', { channel, text: work.includes('eval(') ? 'do not use eval' : 'approved' })
  }
  return last.name === 'send' ? { messages: [new AIMessage('reviewed')] } : calls('receive', { channel })
}

const graph = new StateGraph(MessagesAnnotation)
  .addNode('model', model)
  .addNode('tools', new ToolNode(tools))
  .addEdge(START, 'model')
  .addConditionalEdges('model', ({ messages }) => (messages.at(-1).tool_calls?.length > 0 ? 'tools' : END))
  .addEdge('tools', 'model')
  .compile()
const { messages } = await graph.invoke({ messages: [new HumanMessage('Review what arrives.')] })
console.log('the reviewer:', messages.at(-1).content)
const { channels } = answerOf(await author.receive.invoke({ channel }))
console.log('the author hears:', channels[0].entries[0].text)
await client.close()
rmSync(home, { recursive: true })
