import { IS_WHOLE } from '@static/testkit/whole'
import { membershipScenarios } from './membership.ts'
import { messageScenarios } from './messages.ts'
import { sessionScenarios } from './sessions.ts'

messageScenarios('proxy')
// A proxy passes envelopes on, whatever they are about.
if (IS_WHOLE) membershipScenarios('proxy')
sessionScenarios('proxy')
