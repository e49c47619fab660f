/** API nodes as an operator runs them: separate data directories, the same secrets, one database. */
import { randomBytes } from 'node:crypto'
import { makeDatabase } from './database.ts'
import { type Server, startServer } from '@static/testkit/server'
import type { Workspace } from '@static/testkit/server/workspace'

/** Running nodes. */
export interface Nodes extends AsyncDisposable {
  readonly servers: readonly Server[]
  /** The credential of relay nodes for the internal listener. */
  readonly credential: string
}

/** How to run them. */
export interface NodesOptions {
  readonly workspace: Workspace
  readonly engine: 'sqlite' | 'postgres'
  readonly count: number
  readonly settings: unknown
}

let made = 0

/** Starts nodes on a new database. Several nodes need PostgreSQL. */
export async function startNodes({ workspace, engine, count, settings }: NodesOptions): Promise<Nodes> {
  await using stack = new AsyncDisposableStack()
  const database = engine === 'postgres' ? stack.use(await makeDatabase()).url : undefined
  const master = randomBytes(32).toString('hex')
  const credential = randomBytes(32).toString('hex')
  const servers: Server[] = []
  for (let at = 0; at < count; at++) {
    const name = `node-${++made}`
    const dataDir = workspace.directory(name)
    workspace.file(`${name}/master.key`, `${master}\n`)
    workspace.file(`${name}/relay.credential`, `${credential}\n`)
    servers.push(stack.use(await startServer({ workspace, dataDir, database, settings, internal: true })))
  }
  const kept = stack.move()
  return { servers, credential, [Symbol.asyncDispose]: () => kept.disposeAsync() }
}
