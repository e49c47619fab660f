/** The README, followed from its first command to its last: a new home directory, and what stands there. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { quietPort } from '@static/testkit/ports'
import { snippetsOf } from '../docs/markdown.ts'
import { Reader } from '../docs/reader.ts'
import { makeWorkspace } from '@static/testkit/server/workspace'

/** Snippets that are not followed here, and why. */
const NOT_RUN: Readonly<Record<string, string>> = {
  'README.md#Two agents talk sh 4': 'it takes a second machine: two-machines.test.ts follows it',
  'README.md#Two agents talk sh 5': 'the same',
}
const LANGUAGES = ['sh', 'text', 'ts']

const workspace = await makeWorkspace()
const [api, grpc, quic] = [await quietPort(), await quietPort(), await quietPort()]
const reader = new Reader({
  workspace,
  // The usual ports may be taken on the machine that tests.
  env: { STATIC_API_URL: `https://localhost:${api}`, STATIC_RELAY: `quic://localhost:${quic}` },
  meanings: [
    ['npm start', `npm start -- --api-port ${api} --grpc-port ${grpc} --quic-port ${quic} --no-files`],
    ['localhost:4433', `localhost:${quic}`],
  ],
})
after(async () => {
  await reader[Symbol.asyncDispose]()
  workspace[Symbol.dispose]()
})

test('from a clone to two agents that talk, and the example, by copying lines', async () => {
  const snippets = snippetsOf('README.md')
  const known = snippets.filter(({ name }) => name in NOT_RUN)
  assert.equal(known.length, Object.keys(NOT_RUN).length)
  for (const snippet of snippets.filter(({ name }) => !(name in NOT_RUN))) {
    assert.ok(LANGUAGES.includes(snippet.language), snippet.name)
    await reader.follow(snippet)
    if (snippet.language === 'text')
      assert.ok(
        reader.isWholeTerminal(snippet.code),
        `${snippet.name} is not all that a terminal shows:\n${reader.printed}`,
      )
  }
  assert.equal(reader.printed.match(/^hello$/gm)?.length, 1, 'the example says hello')
})
