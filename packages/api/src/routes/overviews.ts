/**
 * /v1/channels: the channels and agents of the account, as its relays know them; and /internal/v1/overviews, where
 * relay nodes report them while someone is looking.
 */
import Type from 'typebox'
import { MAX_NAME_LENGTH, OVERVIEW_LIMITS, type RelayOverview } from '@static/protocol'
import type { App } from '../http/app.ts'
import { requireSession } from '../http/authenticate.ts'
import { answers, BODY_ERRORS, mode, orNull, time } from '../http/schemas.ts'
import type { Service } from '../service.ts'

const hex = (bytes: number): ReturnType<typeof Type.String> => Type.String({ pattern: `^[0-9a-f]{${bytes * 2}}$` })
const count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const strict = { additionalProperties: false }
const member = Type.Object({ agent: hex(32), waiting: count }, strict)
const channel = Type.Object(
  {
    id: hex(16),
    name: Type.String({ maxLength: MAX_NAME_LENGTH }),
    mode,
    owner: hex(32),
    created_at: time,
    last_at: Type.String({ format: 'date-time', description: 'When its log got its last entry, or it was created' }),
    members: count,
    waiting_bytes: Type.Integer({ ...count, description: 'Bytes that members have not fetched yet' }),
    behind: Type.Array(member, { maxItems: OVERVIEW_LIMITS.membersPerChannel, description: 'Furthest behind first' }),
  },
  strict,
)
const agent = Type.Object(
  {
    id: hex(32),
    mode,
    name: orNull(Type.String({ maxLength: 256, description: 'The identity it chose' })),
    connected: Type.Boolean(),
    last_seen_at: time,
  },
  strict,
)
const reportFields = {
  relay_id: Type.String({ pattern: '^[0-9a-f]{1,128}$' }),
  relay: Type.String({ maxLength: 255, description: 'The server name of the relay' }),
  since: Type.String({ format: 'date-time', description: 'When the relay started' }),
  total_channels: count,
  channels: Type.Array(channel, { maxItems: OVERVIEW_LIMITS.channels }),
  agents: Type.Array(agent, { maxItems: OVERVIEW_LIMITS.agents }),
}
const overview = Type.Object({ relays: Type.Array(Type.Object({ ...reportFields, reported_at: time })) })
const node = Type.Optional(
  Type.String({ pattern: '^[0-9a-f]{1,32}$', description: 'Tells the nodes of a relay apart' }),
)
const report = Type.Object({ account_id: Type.String({ maxLength: 36 }), node, ...reportFields }, strict)

/** The largest report: about 300 bytes for each channel and agent, 100 for each member, and long names. */
const REPORT_BYTES = 256 * 1024

export function overviewRoutes(app: App, service: Service, origin: () => string): void {
  app.get(
    '/v1/channels',
    {
      preValidation: requireSession(service, origin),
      schema: {
        operationId: 'listChannels',
        summary: 'List the channels and agents of the account, as its relays report them while someone is looking',
        tags: ['channels'],
        security: [{ session: [] }],
        response: answers({ 200: overview }, ['auth_failed', 'account_suspended']),
      },
    },
    (request) => service.overviews.look(request.sessionCaller),
  )
}

/** For relay nodes, whose credential the listener has checked. */
export function overviewReportRoutes(app: App, service: Service): void {
  const tags = ['internal']
  const security = [{ key: [] }]
  app.post(
    '/internal/v1/overviews/watched',
    {
      schema: {
        operationId: 'listWatchedAccounts',
        summary: 'List the accounts that someone is looking at and that this relay should report',
        tags,
        security,
        body: Type.Object({ relay_id: reportFields.relay_id, node }, strict),
        response: answers({ 200: Type.Object({ account_ids: Type.Array(Type.String()) }) }, BODY_ERRORS),
      },
    },
    (request) => ({ account_ids: service.overviews.watched(request.body.relay_id, request.body.node) }),
  )

  app.post(
    '/internal/v1/overviews',
    {
      bodyLimit: REPORT_BYTES,
      schema: {
        operationId: 'reportOverview',
        summary: 'Report the channels and agents of a watched account; others are not kept',
        tags,
        security,
        body: report,
        response: answers({ 200: Type.Object({ kept: Type.Boolean() }) }, BODY_ERRORS),
      },
    },
    (request) => {
      const { account_id: account, node: from, ...reported } = request.body
      return { kept: service.overviews.report(account, reported as RelayOverview, from) }
    },
  )
}
