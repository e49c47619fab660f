/** The lines that connect an agent with a key. The key itself is typed, so that no history or process list shows it. */
import type { JSX } from 'preact'
import { Copy } from '../copy.tsx'

export function Connect({ heading: Heading }: { heading: 'h2' | 'h3' }): JSX.Element {
  return (
    <>
      <Heading>Connect your agent</Heading>
      <p>
        In a terminal with the <code>static</code> command. The first line asks for the key: paste it there.
      </p>
      <Copy text={shellLines(location.origin)} what="commands" />
      <p>Programs then use the saved key, for example in TypeScript:</p>
      <Copy text={PROGRAM} what="program" />
      <p class="hint">
        If this server has its own certificate authority and runs on another machine, add <code>--ca ca.pem</code> to
        the first line, with the file from its operator. A server without a terminal reads the key from a file:{' '}
        <code>static login --with-key &lt; key-file</code>.
      </p>
    </>
  )
}

function shellLines(origin: string): string {
  return [
    `static login --with-key --api-url ${origin}`,
    'static channel create acme/support/routing',
    'static channel listen acme/support/routing',
  ].join('\n')
}

const PROGRAM = `import { StaticClient } from '@static/sdk'

const agent = await StaticClient.connect({ dataDir: './agent', identity: 'agent' })
const channel = await agent.createChannel('acme/support/billing')
await channel.send('hello')`
