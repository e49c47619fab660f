/** A2A over a channel: the identifier of the binding, and an agent's entry in its Agent Card (docs/a2a-binding.md). */

/** Identifies the binding in an Agent Card. */
export const A2A_BINDING = 'urn:static:a2a:channel:1'
/** The version of A2A that the binding carries. */
export const A2A_VERSION = '1.0'

/** An entry of `supportedInterfaces` in an Agent Card. */
export interface A2AInterface {
  readonly url: string
  readonly protocolBinding: typeof A2A_BINDING
  readonly protocolVersion: typeof A2A_VERSION
}

/** The entry for an agent that serves A2A in a channel. */
export function a2aInterface(channel: string, agentId: string): A2AInterface {
  return {
    url: `static:${channel}?agent=${agentId}`,
    protocolBinding: A2A_BINDING,
    protocolVersion: A2A_VERSION,
  }
}
