import { AgentCard } from '@a2a-js/sdk'
import { a2aInterface } from '../src/index.ts'

/** The card of an agent that serves over HTTPS and over a channel. */
export function makeCard(channel: string, agentId: string): AgentCard {
  return AgentCard.fromJSON({
    name: 'Test agent',
    description: 'Does what it is asked',
    version: '1.0.0',
    supportedInterfaces: [
      { url: 'http://localhost/', protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
      a2aInterface(channel, agentId),
    ],
    capabilities: { streaming: true, pushNotifications: true, extendedAgentCard: true },
    defaultInputModes: ['text'],
    defaultOutputModes: ['text'],
    skills: [],
  })
}
