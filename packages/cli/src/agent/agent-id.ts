/** The id of an agent, from its running process or from its directory; needs no relay. */
import { HostClient } from './host-client.ts'
import { type KeyFlags, keySourceOf, slotsOf } from './key.ts'

/** An agent id in both forms. */
export interface OwnId {
  readonly agent_id: string
  readonly fingerprint: string
}

export async function ownId(dataDir: string, flags: KeyFlags): Promise<OwnId> {
  const held = await HostClient.connect(dataDir)
  if (held !== undefined) {
    try {
      return (await held.request('fingerprint', [])) as OwnId
    } finally {
      held.close()
    }
  }
  const { readAgentIdentity } = await import('@static/sdk')
  const { agentId, fingerprint } = await readAgentIdentity(dataDir, await keySourceOf(flags, await slotsOf(dataDir)))
  return { agent_id: agentId, fingerprint }
}
