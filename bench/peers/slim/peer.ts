/** SLIM as the bench sees it: one node, and groups with the same interface as ours. */
import { join } from 'node:path'
import { quietPort } from '@static/testkit/ports'
import type { Workspace } from '@static/testkit/server/workspace'
import type { Group } from '../../agent/group.ts'
import { type AgentProcess, startChild } from '../../agent/process.ts'
import { loadSlim } from './library.ts'
import type { MemberOptions, NodeOptions } from './options.ts'

/** The peer, running. */
export interface Peer extends AsyncDisposable {
  readonly version: string
  /** A sender, and this many members in one process. */
  group(name: string, members: number): Promise<Group>
}

/** Starts the node of the installed peer, with a certificate of the workspace. */
export async function startSlimPeer(
  { nameCertFile: cert, nameKeyFile: key, caFile: ca }: Workspace,
  env: { readonly LD_PRELOAD: string },
): Promise<Peer> {
  const port = await quietPort()
  const start = (file: string, options: NodeOptions | MemberOptions): Promise<AgentProcess> =>
    startChild(join(import.meta.dirname, file), options, { env })
  const node = await start('node.ts', { port, cert, key })
  return {
    version: (await loadSlim()).getVersion(),
    async group(group, members) {
      const options = { port, ca, group, members }
      const receivers = await start('members.ts', options)
      const sender = await start('sender.ts', options)
      return {
        sender,
        receivers: [receivers],
        [Symbol.asyncDispose]: async () => {
          await sender[Symbol.asyncDispose]()
          await receivers[Symbol.asyncDispose]()
        },
      }
    },
    [Symbol.asyncDispose]: () => node[Symbol.asyncDispose](),
  }
}
