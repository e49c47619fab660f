/** The OpenAPI 3.1 document, generated from the schemas that validate requests. */
import swagger from '@fastify/swagger'
import { SESSION_COOKIE } from '@static/protocol'
import type { App } from './app.ts'

/** The part of the document that is changed here. */
interface RequestBody {
  required?: boolean
  readonly content: Record<string, { readonly schema?: { readonly required?: readonly string[] } } | undefined>
}
type Paths = Record<string, Record<string, { readonly requestBody?: RequestBody }>>

/** Documents every route added after this call. `url` is the public address, known once the server listens. */
export async function useOpenApi(app: App, url: () => string): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Static API',
        version: '1',
        description: 'Accounts, API keys, tokens and usage. Errors are application/problem+json; see /docs/errors.',
      },
      components: {
        securitySchemes: {
          key: { type: 'http', scheme: 'bearer', description: 'An API key' },
          session: { type: 'apiKey', in: 'cookie', name: SESSION_COOKIE, description: 'A sign-in session' },
          password: { type: 'http', scheme: 'password', description: 'The password, in the body' },
        },
      },
    },
    // The plugin marks every body as required; a body without required fields may be omitted.
    transformObject: (result) => {
      const document = 'openapiObject' in result ? result.openapiObject : {}
      for (const path of Object.values((document.paths ?? {}) as Paths)) {
        for (const { requestBody } of Object.values(path)) {
          const schema = requestBody?.content['application/json']?.schema
          if (requestBody) requestBody.required = (schema?.required?.length ?? 0) > 0
        }
      }
      return { ...document, servers: [{ url: url() }] }
    },
    // References use the `$id` of the schemas.
    refResolver: {
      buildLocalReference: (json, _base, _fragment, at) =>
        typeof json['$id'] === 'string' ? json['$id'] : `schema-${at}`,
    },
  })
}
