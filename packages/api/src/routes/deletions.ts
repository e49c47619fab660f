/** /v1/channels/deletions, by which people request deletions, and /internal/v1/channels/deletions, for relays. */
import Type from 'typebox'
import { CHANNEL_NAME_PATTERN, MAX_NAME_LENGTH, type Mode } from '@static/protocol'
import type { App } from '../http/app.ts'
import { requireSession } from '../http/authenticate.ts'
import { answers, BODY_ERRORS, mode, orNull, time, uuid } from '../http/schemas.ts'
import type { Service } from '../service.ts'

const strict = { additionalProperties: false }
const name = Type.String({ pattern: CHANNEL_NAME_PATTERN, maxLength: MAX_NAME_LENGTH })
const channelId = Type.String({ pattern: '^[0-9a-f]{32}$', description: 'Only the channel with this id' })
const relayId = Type.String({ pattern: '^[0-9a-f]{1,128}$' })
const wanted = { name, mode, channel_id: orNull(channelId) }

export function deletionRoutes(app: App, service: Service, origin: () => string): void {
  app.post(
    '/v1/channels/deletions',
    {
      preValidation: requireSession(service, origin),
      schema: {
        operationId: 'deleteChannel',
        summary: 'Delete a channel of the account for all its members, when its relay next asks',
        tags: ['channels'],
        security: [{ session: [] }],
        body: Type.Object({ name, mode, channel_id: Type.Optional(channelId) }, strict),
        response: answers({ 202: Type.Object({ id: uuid, ...wanted, expires_at: time }) }, [
          ...BODY_ERRORS,
          'auth_failed',
          'account_suspended',
        ]),
      },
    },
    async (request, reply) => {
      const { name: channel, mode: of, channel_id: id = null } = request.body
      const target = { name: channel, mode: of as Mode, channelId: id }
      reply.code(202)
      return await service.deletions.request(request.sessionCaller, target, request.rateContext)
    },
  )
}

/** For relay nodes, whose credential the listener has checked. */
export function deletionReportRoutes(app: App, service: Service): void {
  const tags = ['internal']
  const security = [{ key: [] }]
  app.post(
    '/internal/v1/channels/deletions',
    {
      schema: {
        operationId: 'listChannelDeletions',
        summary: 'List the channels that this relay is to delete',
        tags,
        security,
        body: Type.Object({ relay_id: relayId }, strict),
        response: answers(
          {
            200: Type.Object({
              deletions: Type.Array(Type.Object({ id: uuid, requested_at: time, account_id: uuid, ...wanted })),
            }),
          },
          BODY_ERRORS,
        ),
      },
    },
    async (request) => ({ deletions: [...(await service.deletions.pending(request.body.relay_id))] }),
  )

  app.post(
    '/internal/v1/channels/deletions/:id',
    {
      schema: {
        operationId: 'reportChannelDeletion',
        summary: 'Report that a channel was deleted, or that this relay has no such channel of the account',
        tags,
        security,
        params: Type.Object({ id: Type.String() }),
        body: Type.Object({ relay_id: relayId, deleted: Type.Boolean() }, strict),
        response: answers({ 200: Type.Object({}) }, [...BODY_ERRORS, 'not_found']),
      },
    },
    async (request) => {
      const { relay_id: relay, deleted } = request.body
      await service.deletions.report(request.params.id, relay, deleted)
      return {}
    },
  )
}
