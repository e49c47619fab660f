/** The history of an agent that no other process has open. */
import { StaticError } from '@static/protocol'
import type { AgentHistory } from '@static/sdk'
import { type Holder, holderWords } from './actions.ts'
import { HostClient } from './host-client.ts'
import { type KeyFlags, keySourceOf, slotsOf } from './key.ts'
import { agentPlace, checkExists, type PlaceFlags } from './place.ts'

/**
 * Runs `work` on the history of the agent.
 *
 * @throws {StaticError} `not_found`, `store_locked` if a process has the agent open, with its name; as
 *   `openAgentHistory`
 */
export async function withHistory<Result>(
  flags: PlaceFlags & KeyFlags,
  work: (history: AgentHistory) => Promise<Result>,
): Promise<Result> {
  const { identity, dataDir } = agentPlace(flags)
  await checkClosed(identity, dataDir)
  await checkExists(flags)
  const { openAgentHistory } = await import('@static/sdk')
  const history = await openAgentHistory(dataDir, identity, await keySourceOf(flags, await slotsOf(dataDir)))
  try {
    return await work(history)
  } finally {
    history.close()
  }
}

async function checkClosed(identity: string, dataDir: string): Promise<void> {
  const held = await HostClient.connect(dataDir)
  if (!held) return
  try {
    const holder = (await held.request('holder', [])) as Holder
    throw StaticError.of('store_locked', `Agent ${identity} is open in ${holderWords(holder)}. Stop it, then retry.`)
  } finally {
    held.close()
  }
}
