import { membershipScenarios } from './membership.ts'
import { messageScenarios } from './messages.ts'
import { sessionScenarios } from './sessions.ts'

messageScenarios('quic')
membershipScenarios('quic')
sessionScenarios('quic')
