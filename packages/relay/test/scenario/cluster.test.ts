/** Three relay nodes over PostgreSQL and NATS; each agent connects to the next of them. */
import { after } from 'node:test'
import { type NatsServer, startNats } from '@static/testkit/nats'
import { type PostgresCluster, startCluster } from '@static/testkit/postgres/cluster'
import { emptyScratch } from '../support/postgres.ts'
import { membershipScenarios } from './membership.ts'
import { messageScenarios } from './messages.ts'
import { sessionScenarios } from './sessions.ts'
import type { StageOptions } from './stage.ts'

const NODES = 3
const IS_LONG = process.env['STATIC_LONG'] === '1'
const shared: { nats?: NatsServer; postgres?: PostgresCluster } = {}
after(async () => {
  await shared.nats?.[Symbol.asyncDispose]()
  await shared.postgres?.close()
})

/** The long form has a standby that every commit waits for. */
async function database(): Promise<{ database: string; keyFile?: string }> {
  const { url, keyFile } = await emptyScratch()
  if (!IS_LONG) return { database: url, keyFile }
  shared.postgres ??= await startCluster()
  return { database: shared.postgres.url, keyFile: `${keyFile}.standby` }
}

const options = async (): Promise<StageOptions> => {
  shared.nats ??= await startNats()
  const { url, ca } = shared.nats
  return { nodes: NODES, ...(await database()), nats: { servers: [url], ca } }
}

// KeyPackages, Welcomes, commits, rejections and deletions go from node to node.
if (!IS_LONG) membershipScenarios('grpc', options)
else {
  messageScenarios('mixed', options)
  membershipScenarios('mixed', options)
  sessionScenarios('mixed', options)
}
