/** How bodies and queries are parsed and how their schemas are compiled. */
import { Ajv } from 'ajv'
import { StaticError } from '@static/protocol'
import type { App } from './app.ts'

/** Accepts only JSON in UTF-8; an empty body is an empty object. */
export function useStrictJson(app: App): void {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) => {
    if (body.length === 0) return done(null, {})
    try {
      done(null, JSON.parse(decoder.decode(body as Buffer)))
    } catch {
      // The engine's message quotes the body, which may contain a secret.
      done(StaticError.of('invalid_json', 'The body is not valid JSON in UTF-8.'))
    }
  })

  const options = {
    removeAdditional: false,
    allErrors: false,
    // Formats are documentation only: the rules check the values.
    validateFormats: false,
    // The schemas come from TypeBox. Compiling the schema of schemas would take a fifth of the server's start.
    validateSchema: false,
  }
  const strict = new Ajv({ ...options, coerceTypes: false, useDefaults: false })
  // Everything in a query is text, so numbers are parsed; values in bodies must already have their type.
  const coercing = new Ajv({ ...options, coerceTypes: true, useDefaults: true })
  app.setValidatorCompiler(({ schema, httpPart }) =>
    (httpPart === 'querystring' ? coercing : strict).compile(schema as object),
  )
}
