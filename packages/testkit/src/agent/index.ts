export { Agent, type ServerBody, type Wire, type WireHandlers, type WireStream } from './agent.ts'
export {
  type AgentKey,
  declare,
  leaveNotice,
  keyFrom,
  makeKey,
  NO_TRAFFIC,
  openingOf,
  sha256,
  signRoster,
  signVouch,
} from './key.ts'
export { refusal, Refused } from './refusal.ts'
