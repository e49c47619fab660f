/** Serves a host on stdin and stdout until it closes one of them. */
import type { Server } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import type { AgentFlags } from '../agent/open.ts'
import { note } from '../terminal/output.ts'
import type { Lane } from './lane.ts'
import type { Mailbox } from './mailbox.ts'
import { push } from './push.ts'
import { makeServer, type ServerParts } from './server.ts'
import { Session } from './session.ts'
import { HostTransport } from './transport.ts'

/** A host that is served. */
export interface RunningHost {
  /** Resolves when the host has closed stdin or stdout, or stdin can no longer be read. */
  readonly closed: Promise<void>
  close(): Promise<void>
}

/** Starts serving. The agent is opened when the host begins the handshake, which fails if that does. */
export function runHost(flags: AgentFlags, parts: Omit<ServerParts, 'session'>): RunningHost {
  const closed = Promise.withResolvers<undefined>()
  let pushTo: Server | undefined
  const arrived = (lane: Lane): void => {
    if (pushTo && lane.first) void push(pushTo, lane.first)
  }
  const opened = (mailbox: Mailbox): void => {
    if (pushTo) void mailbox.watch().catch(() => {})
  }
  const session = new Session(flags, { arrived, opened }, parts.manage)
  // Hosts may close it, which only loses notes.
  process.stderr.on('error', () => {})
  const transport = new HostTransport({
    arrived: (request) => session.arrived(request),
    answered: (request) => session.answered(request),
    cancelled: (request) => session.putBack(request),
    closed: () => closed.resolve(undefined),
  })
  const stdio = serveStdio(
    ({ era }) => {
      // The notification is not part of the 2026 revisions.
      const pushes = parts.push && era === 'legacy'
      const server = makeServer({ ...parts, push: pushes, session })
      if (pushes)
        server.oninitialized = () => {
          pushTo = server
          session.mailbox().then(opened, () => {})
        }
      return server
    },
    { transport, onerror: ({ message }) => note(`MCP: ${message}`) },
  )
  return {
    closed: closed.promise,
    close: async () => {
      await stdio.close()
      await session.close()
    },
  }
}
