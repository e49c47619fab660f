/** HTML pages: the error page that every problem links to, and the API reference. */
import { createHash } from 'node:crypto'
import { ERROR_MEANINGS, type ErrorCode, ERRORS } from '@static/protocol'

/** The look of the console; `tests/house/page-style.test.ts` compares the colours. */
const STYLE = `
:root {
  color-scheme: light dark;
  --ground: light-dark(#f6f7f7, #111516); --card: light-dark(#ffffff, #191f20); --line: light-dark(#dfe4e4, #2b3435);
  --ink: light-dark(#16201f, #e7eded); --soft: light-dark(#556261, #9fadac);
  --accent: light-dark(#0f6b63, #6fd3c4); --accent-soft: light-dark(#e5f1ef, #1b302e); --radius: 10px;
  font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--ground)
}
*, *::before { box-sizing: border-box }
body { margin: 0 } header, main { width: min(53rem, 100% - 2rem); margin-inline: auto }
header { display: flex; flex-wrap: wrap; align-items: center; gap: .5rem 2rem; padding-block: 1.25rem }
h1, h2, h3, p { margin: 0; overflow-wrap: anywhere }
h1 { font-size: 1.6rem; line-height: 1.25 } h2 { font-size: 1.1rem } h3 { font-size: 1rem; margin-top: .5rem }
a { color: var(--accent); text-underline-offset: .2em } small, .soft { color: var(--soft) }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
.brand { font-weight: 650; font-size: 1.15rem; color: var(--ink); text-decoration: none }
.brand::before {
  content: ''; display: inline-block; width: .7em; height: .7em; margin-right: .5em; border-radius: .2em;
  background: var(--accent)
}
nav { display: flex; flex-wrap: wrap; gap: .25rem }
nav a { padding: .4rem .8rem; border-radius: var(--radius); color: var(--soft); text-decoration: none }
nav a:hover { color: var(--ink) }
nav a[aria-current] { color: var(--accent); background: var(--accent-soft); font-weight: 550 }
main { display: grid; grid-template-columns: minmax(0, 1fr); gap: 1.5rem; padding-block: 1.5rem 3rem }
section {
  display: grid; grid-template-columns: minmax(0, 1fr); gap: .6rem; padding: 1.5rem; scroll-margin-top: 1rem;
  border: 1px solid var(--line); border-radius: calc(var(--radius) + 4px); background: var(--card)
}
section:target { border-color: var(--accent) }
code { font: .9em ui-monospace, 'SF Mono', Menlo, Consolas, monospace; overflow-wrap: anywhere }
h2 .method { color: var(--accent) }
.index { columns: 2 18rem; column-gap: 2rem; margin: 0; padding: 0; list-style: none; line-height: 1.9 }
.index li { break-inside: avoid; overflow-wrap: anywhere }
.index a { text-decoration: none } .index a:hover { text-decoration: underline }
table { width: 100%; border-collapse: collapse } tr { border-top: 1px solid var(--line) }
td, th { padding: .45rem 1rem .45rem 0; text-align: left; vertical-align: baseline; font-weight: 400; overflow-wrap: anywhere }
td:last-child { padding-right: 0 } th { width: 30% } summary { width: fit-content; color: var(--accent); cursor: pointer }
@media (width < 40rem) {
  nav a { padding-inline: .5rem }
  section { padding: 1.15rem } table, tbody, tr, th, td { display: block; width: auto }
  tr { padding-block: .5rem } td, th { padding: .05rem 0 }
}
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
  const all = paths.flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => ({ method, path, operation })),
  )
  const index = all.map(
    ({ method, path }) => `<li><a href="#${anchorOf(method, path)}"><code>${nameOf(method, path)}</code></a></li>`,
  )
  const sections = all.map(({ method, path, operation }) => section(method, path, operation))
  return page('API reference', `<section><ul class="index">${index.join('')}</ul></section>${sections.join('\n')}`)
}

/** As in the heading of its section. */
function nameOf(method: string, path: string): string {
  return `<span class="method">${method.toUpperCase()}</span> ${escapeHtml(path)}`
}

function anchorOf(method: string, path: string): string {
  return `${method}${path.replaceAll(/[^a-z0-9]+/gi, '-')}`
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
    `<section id="${anchorOf(method, path)}"><h2><code>${nameOf(method, path)}</code></h2><p>${markUp(operation.summary ?? '')}.</p>` +
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

/** The pages, as in the navigation. */
const PAGES = { '/docs': 'API reference', '/docs/errors': 'Errors' } as const

function page(title: (typeof PAGES)[keyof typeof PAGES], body: string): string {
  const links = Object.entries(PAGES).map(
    ([path, name]) => `<a href="${path}"${name === title ? ' aria-current="page"' : ''}>${name}</a>`,
  )
  return (
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">` +
    `<title>${title} · Static</title><style>${STYLE}</style></head><body><header><a class="brand" href="/">Static</a>` +
    `<nav aria-label="Reference">${links.join('')}<a href="/openapi.json">OpenAPI 3.1</a></nav></header>` +
    `<main><h1>${title}</h1>${body}</main></body></html>`
  )
}

function markUp(text: string): string {
  return escapeHtml(text).replace(/`([^`]+)`/g, '<code>$1</code>')
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}
