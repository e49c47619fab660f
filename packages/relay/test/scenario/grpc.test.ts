import { membershipScenarios } from './membership.ts'
import { messageScenarios } from './messages.ts'
import { sessionScenarios } from './sessions.ts'

messageScenarios('grpc')
membershipScenarios('grpc')
sessionScenarios('grpc')
