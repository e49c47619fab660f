/** What sending and receiving files needs of an agent. */
import type { AgentServices } from '../agent/services.ts'

export type FileServices = Pick<AgentServices, 'context' | 'requests' | 'timers' | 'filesPlace'>
