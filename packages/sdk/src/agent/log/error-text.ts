/**
 * An error of the application's code, as a log may show it: name, message and stack, but no payload. Errors often quote
 * the value that they are about (`JSON.parse` does), so what a message shares with the payload is left out. Excerpts of
 * fewer than 8 characters cannot be told from other words, unless they are the whole payload. Secrets are redacted as
 * in other errors.
 */
import { redactSecrets } from '@static/protocol'

/** Characters of a message. */
const MOST_MESSAGE = 1000
const MOST_FRAMES = 20
const MOST_CAUSES = 3
/** The shortest excerpt that is recognised. */
const EXCERPT = 8
/** Characters that change what a terminal or a reader of a log sees. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu
const FRAME = /^\s+at \S/

/** The lines of an error that was thrown for a payload. */
export function errorText(error: unknown, payload: Uint8Array): string {
  const body = new TextDecoder().decode(payload)
  const lines = [headOf(error, body), ...framesOf(error, body)]
  let cause = causeOf(error)
  for (let depth = 0; cause !== undefined && depth < MOST_CAUSES; depth++, cause = causeOf(cause)) {
    lines.push(`caused by ${headOf(cause, body)}`)
  }
  return redactSecrets(lines.join('\n'))
}

/** Name and message, on one line. */
function headOf(error: unknown, body: string): string {
  const message = textOf(() => (error instanceof Error ? error.message : error))
  const shown = withoutExcerpts(message.slice(0, MOST_MESSAGE), body).replaceAll(UNSEEN, ' ')
  return error instanceof Error ? `${textOf(() => error.name).replaceAll(UNSEEN, ' ')}: ${shown}` : shown
}

/** The lines of the stack below the message, which can have several lines itself. */
function framesOf(error: unknown, body: string): readonly string[] {
  const stack = error instanceof Error ? textOf(() => error.stack) : ''
  const message = error instanceof Error ? textOf(() => error.message) : ''
  const at = message === '' ? -1 : stack.indexOf(message)
  const rest = stack.slice(at < 0 ? 0 : at + message.length).split('\n')
  // If the message was changed after the stack was taken, the old one may still be above the frames.
  const frames = rest.slice(1).filter((line) => FRAME.test(line))
  return frames.slice(0, MOST_FRAMES).map((line) => {
    const shown = at < 0 && message !== '' ? withoutExcerpts(line, body) : line
    return shown.replaceAll(UNSEEN, ' ')
  })
}

function causeOf(error: unknown): unknown {
  return error instanceof Error ? error.cause : undefined
}

/** Programs can throw anything, even values that cannot be read or have no text. */
function textOf(read: () => unknown): string {
  try {
    return String(read())
  } catch {
    return 'unknown'
  }
}

/** The text with `…` for everything that it shares with the payload. */
function withoutExcerpts(text: string, body: string): string {
  if (body === '') return text
  if (body.length < EXCERPT) return text.replaceAll(new RegExp(`(?<!\\w)${RegExp.escape(body)}(?!\\w)`, 'g'), '…')
  const isQuoted = new Uint8Array(text.length)
  for (let at = 0; at + EXCERPT <= text.length; at++) {
    if (body.includes(text.slice(at, at + EXCERPT))) isQuoted.fill(1, at, at + EXCERPT)
  }
  let shown = ''
  for (let at = 0; at < text.length; at++) {
    if (isQuoted[at] !== 1) shown += text[at]
    else if (isQuoted[at - 1] !== 1) shown += '…'
  }
  return shown
}
