import { membershipScenarios } from './membership.ts'
import { messageScenarios } from './messages.ts'
import { sessionScenarios } from './sessions.ts'

messageScenarios('mixed')
membershipScenarios('mixed')
sessionScenarios('mixed')
