/** The OpenAPI document of the API: its operations, and checks of responses against it. */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { ERRORS, type Problem } from '@static/protocol'
import type { Answer } from '@static/testkit/server/client'

/** The part of JSON Schema that the document uses. */
export interface Schema {
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly anyOf?: readonly Schema[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly format?: string
  readonly pattern?: string
  readonly minLength?: number
  readonly maxLength?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly $ref?: string
}

/** A parameter in the path, the query or a header. */
interface Parameter {
  readonly in: 'path' | 'query' | 'header'
  readonly name: string
  readonly schema: Schema
}

interface Content {
  readonly content?: Readonly<Record<string, { readonly schema: Schema }>>
}

/** The document. */
export interface Document {
  readonly openapi: string
  readonly paths: Readonly<
    Record<
      string,
      Readonly<
        Record<
          string,
          {
            readonly parameters?: readonly Parameter[]
            readonly requestBody?: Content
            readonly responses: Readonly<Record<string, Content & { readonly description: string }>>
          }
        >
      >
    >
  >
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
}

/** One operation of the document. */
export interface Operation {
  /** For example `POST /v1/keys`. */
  readonly name: string
  readonly method: string
  readonly path: string
  readonly parameters: readonly Parameter[]
  readonly body: Schema | undefined
  /** What is wrong with a response; undefined if it is valid. */
  judge(answer: Answer): string | undefined
}

const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

/** All operations of a document. */
export function operationsOf(document: Document): Operation[] {
  const ajv = new Ajv2020({ strict: false, allErrors: false })
  // Stricter than the standard formats: SPEC.md says UUIDv7, and times with milliseconds in UTC.
  ajv.addFormat('uuid', ID)
  ajv.addFormat('date-time', TIME)
  ajv.addFormat('date', /^\d{4}-\d\d-\d\d$/)
  ajv.addFormat('uri', (text) => URL.canParse(text))
  for (const [name, schema] of Object.entries(document.components.schemas)) {
    ajv.addSchema(closed(schema), `#/components/schemas/${name}`)
  }
  return Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, { parameters = [], requestBody, responses }]) => {
      const checks = new Map<string, (answer: Answer) => string | undefined>()
      for (const [status, { content, description }] of Object.entries(responses)) {
        checks.set(status, checkOf(ajv, content, description))
      }
      return {
        name: `${method.toUpperCase()} ${path}`,
        method: method.toUpperCase(),
        path,
        parameters,
        body: requestBody?.content?.['application/json']?.schema,
        judge: (answer) =>
          answer.status >= 500
            ? 'an error of the server'
            : (judgeHeaders(answer) ?? (checks.get(String(answer.status)) ?? (() => 'an undeclared status'))(answer)),
      }
    }),
  )
}

/** How to check a response with one status: its media type, its schema and, for a problem, its code. */
function checkOf(
  ajv: Ajv2020,
  content: Content['content'],
  description: string,
): (answer: Answer) => string | undefined {
  const [type, schema] = Object.entries(content ?? {}).map(([name, entry]) => [name, entry.schema] as const)[0] ?? []
  if (type === undefined || schema === undefined || schema.type === 'null') {
    return ({ text }) => (text === '' ? undefined : 'a body where none is declared')
  }
  const validate: ValidateFunction = ajv.compile(closed(schema))
  const codes = new Set(description.split(', '))
  return (answer) => {
    const sent = answer.headers['content-type']?.split(';')[0]
    if (sent !== type) return `the type ${sent} in place of ${type}`
    const body: unknown = parse(answer.text)
    if (!validate(body)) return `not its schema: ${ajv.errorsText(validate.errors)}`
    if (type !== 'application/problem+json') return undefined
    const problem = body as Problem
    return (
      judgeProblem(problem, answer) ?? (codes.has(problem.code) ? undefined : `the undeclared code ${problem.code}`)
    )
  }
}

/** Checks of a problem document beyond its schema. */
function judgeProblem(problem: Problem, { status, headers }: Answer): string | undefined {
  if (!Object.hasOwn(ERRORS, problem.code)) return `the unknown code ${problem.code}`
  const { status: expected, title } = ERRORS[problem.code]
  if (problem.status !== status || expected !== status) return `${problem.code} with the status ${status}`
  if (problem.title !== title) return `the title ${problem.title}`
  if (!problem.type.endsWith(`/docs/errors#${problem.code}`)) return `the type ${problem.type}`
  if (problem.request_id !== headers['x-request-id']) return 'a request id that is not the header’s'
  if (/\bat .*:\d+:\d+|node_modules|SQLITE|select /.test(JSON.stringify(problem))) return 'words from the inside'
  return undefined
}

/** Headers of every response (SPEC.md, "General"). */
function judgeHeaders({ status, headers }: Answer): string | undefined {
  const missing = ['x-request-id', 'cache-control', 'ratelimit', 'ratelimit-policy'].filter((name) => !headers[name])
  if (status === 401 && !headers['www-authenticate']) missing.push('www-authenticate')
  if ((status === 429 || status === 503) && !headers['retry-after']) missing.push('retry-after')
  if (status === 405 && !headers.allow) missing.push('allow')
  return missing.length > 0 ? `the headers ${missing.join(', ')} are missing` : undefined
}

/** The schema with every object closed: undeclared fields are not allowed. */
function closed(schema: Schema): Schema {
  return JSON.parse(JSON.stringify(schema), (_name, value: unknown) =>
    typeof value === 'object' && value !== null && 'properties' in value && 'type' in value
      ? { ...value, additionalProperties: false }
      : value,
  ) as Schema
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
