/**
 * How long a message takes there and back between two agents of the SDK over gRPC: at `static up` with SQLite, and at two
 * relay nodes over PostgreSQL and NATS, one agent at each. In turns.
 */
import { join } from 'node:path'
import { startNats } from '@static/testkit/nats'
import { quietPort } from '@static/testkit/ports'
import { type Ports, RelayHome } from '@static/testkit/relay/process'
import { startServer } from '@static/testkit/server'
import { signUp } from '@static/testkit/server/accounts'
import { makeClient } from '@static/testkit/server/client'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace, type Workspace } from '@static/testkit/server/workspace'
import { type Group, joinAll, percentile } from '../agent/group.ts'
import { startAgent } from '../agent/process.ts'
import { startSystem } from '../agent/system.ts'

const CHANNEL = 'bench/cluster/talk'
const WARM_UP = 30

/** Medians in milliseconds, one for each round. */
export interface RoundTrips {
  readonly sqlite: readonly number[]
  readonly twoNodes: readonly number[]
}

/** Measures both, `rounds` times `count` round trips each. `database` is an empty one of PostgreSQL. */
export async function measureRoundTrips(database: string, rounds: number, count: number): Promise<RoundTrips> {
  await using stack = new AsyncDisposableStack()
  const one = stack.use(await makeWorkspace())
  const sqlite = await stack.use(await startSystem(one)).group('grpc', CHANNEL, 1)
  stack.use(sqlite)
  const twoNodes = await startTwoNodes(stack, database)
  const measured = { sqlite: [] as number[], twoNodes: [] as number[] }
  const groups = { sqlite, twoNodes }
  for (const group of Object.values(groups)) await group.receivers[0]?.ask({ type: 'echo' }, 'done')
  for (let round = -1; round < rounds; round++) {
    for (const name of ['sqlite', 'twoNodes'] as const) {
      const { times } = await groups[name].sender.ask(
        { type: 'roundTrips', count: round < 0 ? WARM_UP : count },
        'times',
      )
      if (round >= 0) measured[name].push(percentile(times, 0.5))
    }
  }
  for (const group of Object.values(groups)) await group.receivers[0]?.ask({ type: 'stopEcho' }, 'done')
  return measured
}

/** Two nodes, an API, and an agent at each node. */
async function startTwoNodes(stack: AsyncDisposableStack, database: string): Promise<Group> {
  const workspace = stack.use(await makeWorkspace())
  const dataDir = workspace.directory('api')
  const api = stack.use(await startServer({ workspace, dataDir, settings: QUICK, logLevel: 'silent' }))
  const client = makeClient(api.url, workspace.ca)
  stack.defer(() => client.close())
  const { api_key: key } = await signUp(client)
  const keys = await client.json<{ keys: object[] }>(200, { method: 'GET', path: '/.well-known/jwks.json' })
  const nats = stack.use(await startNats())
  const home = await RelayHome.make()
  stack.defer(() => home.remove())
  const keyFile = join(home.directory, 'relay.key')
  const access = { database, keyFile, nats: { servers: [nats.url], ca: nats.ca } }
  const node = async (): Promise<Ports> => {
    const ports = { grpc: await quietPort(), quic: await quietPort() }
    const child = await home.startNode({}, ports, access, keys)
    stack.defer(() => child.close())
    return ports
  }
  const [first, second] = [await node(), await node()]
  const ca = `${workspace.ca}\n${home.ca}`
  const agent = (identity: string, { grpc }: Ports): ReturnType<typeof startAgent> =>
    startAgent(
      optionsOf(workspace, identity, { endpoint: `https://localhost:${grpc}`, apiKey: key.key, apiUrl: api.url, ca }),
    )
  const sender = stack.use(await agent('sender', first))
  const receiver = stack.use(await agent('receiver', second))
  await joinAll(sender, [receiver], CHANNEL)
  return { sender, receivers: [receiver], [Symbol.asyncDispose]: () => Promise.resolve() }
}

function optionsOf(workspace: Workspace, identity: string, connection: object): object {
  return { identity, dataDir: workspace.directory(identity), ...connection }
}
