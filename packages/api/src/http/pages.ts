/** Pages for people: the error page that every problem points to, and the API's description. */
import { createHash } from 'node:crypto'
import { ERRORS } from '@static/protocol'

const STYLE = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 56rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem } h2 { font-size: 1.1rem; margin: 2rem 0 0 } h3 { font-size: 1rem; margin: 1rem 0 0 }
code, pre { font: .9em ui-monospace, monospace } pre { overflow: auto; padding: .75rem; border: 1px solid #8886 }
section:target { outline: 2px solid; outline-offset: .5rem }
table { border-collapse: collapse } td, th { padding: .2rem .75rem .2rem 0; text-align: left; vertical-align: top }
`

/** Only this page's own style may be used, and nothing may be loaded. */
export const PAGE_POLICY: string = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'`

/** One section for each code; the anchor is the code. */
export function errorsPage(): string {
  const sections = Object.entries(ERRORS).map(
    ([code, { title, family, status, retryable, help }]) =>
      `<section id="${code}"><h2><code>${code}</code></h2><p><strong>${escape(title)}.</strong> ${markUp(help)}</p>` +
      `<p><small>${family} · HTTP ${status} · ${retryable ? 'try again later' : 'trying again does not help'}</small></p></section>`,
  )
  return page('Errors', `<p>Programs switch on <code>code</code>; the texts may change.</p>${sections.join('\n')}`)
}

interface Operation {
  readonly summary?: string
  readonly description?: string
  readonly security?: readonly Record<string, unknown>[]
  readonly requestBody?: { readonly content?: Record<string, { readonly schema?: unknown }> }
  readonly responses?: Record<
    string,
    { readonly description?: string; readonly content?: Record<string, { readonly schema?: unknown }> }
  >
}

/** The API's description as a page. */
export function docsPage(document: { readonly paths?: unknown }): string {
  const paths = Object.entries((document.paths ?? {}) as Record<string, Record<string, Operation>>)
  const sections = paths.flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => {
      const auth = operation.security?.flatMap((scheme) => Object.keys(scheme)).join(' or ') ?? 'none'
      const body = Object.values(operation.requestBody?.content ?? {})[0]?.schema
      const rows = Object.entries(operation.responses ?? {}).map(
        ([status, { description }]) => `<tr><th>${escape(status)}</th><td>${markUp(description ?? '')}</td></tr>`,
      )
      const success = Object.entries(operation.responses ?? {}).find(([status]) => status.startsWith('2'))?.[1]
      const answer = Object.values(success?.content ?? {})[0]?.schema
      return (
        `<section><h2><code>${method.toUpperCase()} ${escape(path)}</code></h2><p>${markUp(operation.summary ?? '')}</p>` +
        `<p><small>Authentication: ${escape(auth)}</small></p>` +
        (body === undefined ? '' : `<h3>Body</h3><pre>${escape(JSON.stringify(body, null, 2))}</pre>`) +
        (answer === undefined ? '' : `<h3>Answer</h3><pre>${escape(JSON.stringify(answer, null, 2))}</pre>`) +
        `<table>${rows.join('')}</table></section>`
      )
    }),
  )
  return page(
    'Static API',
    `<p>The same as <a href="/openapi.json">OpenAPI 3.1</a>; <a href="/docs/errors">all errors</a>.</p>${sections.join('\n')}`,
  )
}

function page(title: string, body: string): string {
  return (
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">` +
    `<title>${escape(title)} · Static</title><style>${STYLE}</style></head><body><main><h1>${escape(title)}</h1>${body}</main></body></html>`
  )
}

function markUp(text: string): string {
  return escape(text).replace(/`([^`]+)`/g, '<code>$1</code>')
}

function escape(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}
