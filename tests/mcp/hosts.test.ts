/** The configuration of known hosts, as the documentation shows it, starts a server that answers. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { snippetsOf } from '../docs/markdown.ts'
import { newHost, oldHost, Place } from './support.ts'

interface Entry {
  readonly type?: string
  readonly command: string
  readonly args: readonly string[]
}

const place = await Place.open()
after(() => place[Symbol.asyncDispose]())

/** The entries of a configuration by the names of their servers. */
function entriesOf(language: string, code: string): Readonly<Record<string, Entry>> {
  if (language === 'json') {
    const { mcpServers, servers } = JSON.parse(code) as Record<string, Record<string, Entry> | undefined>
    return mcpServers ?? servers ?? {}
  }
  const [, name = ''] = /^\[mcp_servers\.(\w+)\]$/m.exec(code) ?? []
  const valueOf = (key: string): unknown => JSON.parse(new RegExp(`^${key} = (.*)$`, 'm').exec(code)?.[1] ?? 'null')
  return { [name]: { command: valueOf('command') as string, args: valueOf('args') as string[] } }
}

test('each of four configurations starts a server', async () => {
  const snippets = snippetsOf('docs/11-mcp.md').filter(({ language }) => language === 'json' || language === 'toml')
  assert.equal(snippets.length, 4)
  const keys = snippets.map(({ language, code }) => (language === 'json' ? Object.keys(JSON.parse(code))[0] : 'toml'))
  assert.deepEqual(keys, ['mcpServers', 'mcpServers', 'servers', 'toml'])
  for (const [at, { language, code }] of snippets.entries()) {
    const [[name, entry] = ['', undefined], ...rest] = Object.entries(entriesOf(language, code))
    assert.deepEqual([name, rest.length, entry?.command, entry?.type ?? 'stdio'], ['static', 0, 'static', 'stdio'])
    const [word = '', flag, identity = '', ...others] = entry?.args ?? []
    assert.deepEqual([word, flag, others], ['mcp', '--as', []])
    const host = await (at % 2 === 0 ? newHost : oldHost)(place.command(identity, word))
    const { tools } = await host.client.listTools()
    assert.equal(tools.length, 5)
    await host.close()
  }
})
