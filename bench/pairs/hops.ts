/**
 * The hops of a message from `send()` to the application of its receiver, in order. Each says where in the source of a
 * checkout its stamp goes: the first match of `anchor` in `file` is replaced by `text`. The files themselves stay as
 * they are; stamps.ts makes the replacement while a module is loaded.
 */

/** The process that passes a hop. */
type Party = 'sender' | 'relay' | 'receiver'

/** A hop of a message. */
export interface Hop {
  readonly name: string
  /** What happens between the hop before and this one. */
  readonly title: string
  readonly party: Party
  readonly way?: 'grpc' | 'quic'
  /** Undefined: the bench stamps it itself. */
  readonly place?: {
    readonly file: string
    readonly anchor: RegExp
    /** As in `String.replace`, with STAMP for the call. */
    readonly text: string
  }
}

/** All of them. */
export const HOPS: readonly Hop[] = [
  {
    name: 'send',
    title: 'application calls `send()`',
    party: 'sender',
    place: { file: 'sdk/src/public/channel.ts', anchor: /async send\(payload: .*\{$/m, text: '$& STAMP' },
  },
  {
    name: 'sealed',
    title: '`send()` → end of turn, sealed (frame, MLS, signature)',
    party: 'sender',
    place: {
      file: 'sdk/src/channel/sending/sender.ts',
      anchor: /this\.#outbox\.add\(record, \w+\)/,
      text: 'STAMP; $&',
    },
  },
  {
    name: 'turn',
    title: 'the rest of the turn',
    party: 'sender',
    place: { file: 'sdk/src/channel/journal.ts', anchor: /const .* = this\.#gather\(\)/, text: 'STAMP; $&' },
  },
  {
    name: 'stored',
    title: "agent's disk before the message leaves",
    party: 'sender',
    place: {
      file: 'sdk/src/channel/journal.ts',
      anchor: /for \(const writer of writers\) writer\.written\(\)/,
      text: 'STAMP; $&',
    },
  },
  {
    name: 'written',
    title: 'encode, session core, microtasks',
    party: 'sender',
    place: {
      file: 'sdk/src/session/core-runner.ts',
      anchor: /if \(cells\.length > 0\) stream\.write/,
      text: 'if (cells.length > 0) STAMP; $&',
    },
  },
  {
    name: 'quic-in',
    title: "write, QUIC, kernel → relay's QUIC thread",
    party: 'relay',
    way: 'quic',
    place: {
      file: 'relay/src/transport/quic/worker.ts',
      anchor: /stream\.on\('data', \(chunk: Buffer\) => \{/,
      text: '$& STAMP',
    },
  },
  {
    name: 'received',
    title: "write, TLS, kernel (QUIC: its thread) → relay's main thread",
    party: 'relay',
    place: {
      file: 'relay/src/runner/links.ts',
      anchor: /#received\(link: Link, chunk: Uint8Array\): void \{/,
      text: '$& STAMP',
    },
  },
  {
    name: 'asked',
    title: 'cells, decode, core, microtask',
    party: 'relay',
    place: {
      file: 'relay/src/runner/core-runner.ts',
      anchor: /case 'store':/,
      text: "$&; if (effect.name === 'append') STAMP;",
    },
  },
  {
    name: 'begun',
    title: '→ store (thread), unpack',
    party: 'relay',
    place: {
      file: 'relay/src/store/sqlite/engine.ts',
      anchor: /#transaction\(calls: readonly Call\[\]\): Answer\[\] \{/,
      text: '$& STAMP',
    },
  },
  {
    name: 'commit',
    title: 'statements',
    party: 'relay',
    place: { file: 'relay/src/store/sqlite/engine.ts', anchor: /this\.#commit\.run\(\)/, text: 'STAMP; $&' },
  },
  {
    name: 'committed',
    title: 'COMMIT',
    party: 'relay',
    place: { file: 'relay/src/store/sqlite/engine.ts', anchor: /this\.#commit\.run\(\)/, text: '$&; STAMP;' },
  },
  {
    name: 'done',
    title: 'store (thread) → main thread',
    party: 'relay',
    place: {
      file: 'relay/src/runner/core-runner.ts',
      anchor: /void => (this\.#handle\(\{ type: 'done', id, outcome \}\))/,
      text: 'void => (STAMP, $1)',
    },
  },
  {
    name: 'flushed',
    title: 'core, encode',
    party: 'relay',
    place: {
      file: 'relay/src/runner/link-writer.ts',
      anchor: /const links = \[\.\.\.this\.#dirty\]/,
      text: 'STAMP; $&',
    },
  },
  {
    name: 'quic-out',
    title: 'main thread → QUIC thread',
    party: 'relay',
    way: 'quic',
    place: { file: 'relay/src/transport/quic/worker.ts', anchor: /stream\.write\(cells\)/, text: 'STAMP; $&' },
  },
  {
    name: 'data',
    title: 'write, kernel → agent',
    party: 'receiver',
    place: {
      file: 'sdk/src/session/core-runner.ts',
      anchor: /data: \(bytes\) => (this\.#handle\(.*\)),$/m,
      text: 'data: (bytes) => (STAMP, $1),',
    },
  },
  {
    name: 'open',
    title: 'cells, decode, follower',
    party: 'receiver',
    place: {
      file: 'sdk/src/channel/log/follower.ts',
      anchor: /const opened = this\.#open\(entry, sender\)/,
      text: 'STAMP; $&',
    },
  },
  {
    name: 'opened',
    title: 'open (MLS, verification)',
    party: 'receiver',
    place: {
      file: 'sdk/src/channel/log/follower.ts',
      anchor: /const opened = this\.#open\(entry, sender\)/,
      text: '$&; STAMP;',
    },
  },
  { name: 'application', title: 'history, inbox, promise → application', party: 'receiver' },
]
