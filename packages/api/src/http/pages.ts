/** HTML pages: the error page that every problem links to, and the API reference. */
import { createHash } from 'node:crypto'
import { ERROR_MEANINGS, type ErrorCode, ERRORS } from '@static/protocol'

const STYLE = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 56rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem } h2 { font-size: 1.1rem; margin: 2rem 0 0 } h3 { font-size: 1rem; margin: 1rem 0 0 }
code, pre { font: .9em ui-monospace, monospace } pre { overflow: auto; padding: .75rem; border: 1px solid #8886 }
section { scroll-margin-top: 1rem } section:target { outline: 2px solid; outline-offset: .5rem; border-radius: 2px } section > p { margin: .4rem 0 }
table { border-collapse: collapse } td, th { padding: .2rem .75rem .2rem 0; text-align: left; vertical-align: top }
`

/** Allows only the inline style above; the page may load nothing. */
export const PAGE_POLICY: string = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'`

/** One section for each code; the anchor is the code. */
export function errorsPage(): string {
  const sections = Object.entries(ERRORS).map(
    ([code, { title, family, status, retryable, remedy }]) =>
      `<section id="${code}"><h2><code>${code}</code></h2>` +
      `<p><strong>${escapeHtml(title)}.</strong> ${markUp(ERROR_MEANINGS[code as ErrorCode])}</p>` +
      `<p><strong>What to do:</strong> ${markUp(remedy)}</p>` +
      `<p><strong>Retry?</strong> ${retryable ? 'Yes: the same call can succeed later.' : 'No: something has to change first.'}</p>` +
      `<p><small>${family} · HTTP ${status}</small></p></section>`,
  )
  return page(
    'Errors',
    `<p>Switch on <code>code</code> in programs; titles and messages may change.</p>${sections.join('\n')}`,
  )
}

interface Schema {
  readonly type?: string | readonly string[]
  readonly enum?: readonly string[]
  readonly const?: string
  readonly format?: string
  readonly pattern?: string
  readonly description?: string
  readonly default?: unknown
  readonly minLength?: number
  readonly maxLength?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly required?: readonly string[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly items?: Schema
}

interface Content {
  readonly content?: Readonly<Record<string, { readonly schema?: Schema }>>
}

interface Operation {
  readonly summary?: string
  readonly security?: readonly Readonly<Record<string, unknown>>[]
  readonly parameters?: readonly {
    readonly name: string
    readonly in: string
    readonly required?: boolean
    readonly schema: Schema
  }[]
  readonly requestBody?: Content
  readonly responses?: Readonly<Record<string, Content & { readonly description?: string }>>
}

/** The API reference, made from the OpenAPI document. */
export function docsPage(document: { readonly paths?: unknown }): string {
  const paths = Object.entries((document.paths ?? {}) as Record<string, Record<string, Operation>>)
  const sections = paths.flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => section(method, path, operation)),
  )
  return page(
    'Static API',
    `<p>Also available as <a href="/openapi.json">OpenAPI 3.1</a>. See also <a href="/docs/errors">all errors</a>.</p>${sections.join('\n')}`,
  )
}

function section(method: string, path: string, operation: Operation): string {
  const auth = operation.security?.flatMap((scheme) => Object.keys(scheme)).join(' or ') ?? 'none'
  const answers = Object.entries(operation.responses ?? {})
  const [status, success] = answers.find(([code]) => code.startsWith('2')) ?? ['', undefined]
  const given = (operation.parameters ?? []).map((one) => row(one.name, one.schema, one.required === true, one.in))
  const asked = schemaOf(operation.requestBody)
  const rows = [...given, ...(asked ? fields(asked) : [])]
  const codes = answers
    .filter(([code]) => code !== status)
    .map(([code, { description }]) => `<tr><th>${escapeHtml(code)}</th><td>${links(description ?? '')}</td></tr>`)
  const answer = schemaOf(success)
  const answerRows = answer ? fields(answer) : []
  return (
    `<section><h2><code>${method.toUpperCase()} ${escapeHtml(path)}</code></h2><p>${markUp(operation.summary ?? '')}.</p>` +
    `<p><small>Authentication: ${escapeHtml(auth)}</small></p>` +
    (rows.length > 0 ? `<h3>Request</h3><table>${rows.join('')}</table>` : '') +
    `<h3>Response ${escapeHtml(status)}</h3>${answerRows.length > 0 ? `<table>${answerRows.join('')}</table>` : ''}` +
    `<details><summary>Errors</summary><table>${codes.join('')}</table></details></section>`
  )
}

function schemaOf(place: Content | undefined): Schema | undefined {
  return place?.content?.['application/json']?.schema
}

/** One row for each field, nested fields included. */
function fields(schema: Schema, prefix = ''): string[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, field]) => {
    const inner = field.items ?? field
    const path = `${prefix}${name}${field.items ? '[]' : ''}`
    const own = row(path, field, schema.required?.includes(name) === true)
    return inner.properties ? fields(inner, `${path}.`) : [own]
  })
}

function row(name: string, schema: Schema, required: boolean, place?: string): string {
  const type = schema.enum?.join(' | ') ?? schema.const ?? [schema.type].flat().join(' or ')
  const { format, pattern, minLength, maxLength, minimum, maximum, description } = schema
  const notes = [
    place === undefined ? undefined : `in the ${place}`,
    required ? undefined : 'optional',
    format,
    pattern,
    range(minLength, maxLength, ' characters'),
    range(minimum, maximum, ''),
    schema.default === undefined ? undefined : `default ${JSON.stringify(schema.default)}`,
    description,
  ]
  const note = notes.filter((each) => each !== undefined).join('; ')
  return `<tr><th><code>${escapeHtml(name)}</code></th><td>${escapeHtml(type)}</td><td>${markUp(note)}</td></tr>`
}

function range(least: number | undefined, most: number | undefined, unit: string): string | undefined {
  if (least === undefined && most === undefined) return undefined
  if (most === undefined || most === Number.MAX_SAFE_INTEGER) return `at least ${least ?? 0}${unit}`
  return `${least ?? 0} to ${most}${unit}`
}

function links(codes: string): string {
  return codes
    .split(', ')
    .map((code) => `<a href="/docs/errors#${escapeHtml(code)}"><code>${escapeHtml(code)}</code></a>`)
    .join(', ')
}

function page(title: string, body: string): string {
  return (
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">` +
    `<title>${escapeHtml(title)} · Static</title><style>${STYLE}</style></head><body><main><h1>${escapeHtml(title)}</h1>${body}</main></body></html>`
  )
}

function markUp(text: string): string {
  return escapeHtml(text).replace(/`([^`]+)`/g, '<code>$1</code>')
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}
