/** Calls to the HTTP API. The session is in a cookie that no script can read. */
import type { CSRF_HEADER, ErrorCode, Problem } from '@static/protocol'

/** Another site's page cannot set this header. The type ensures that the API expects the same name. */
const CSRF: typeof CSRF_HEADER = 'x-static-csrf'

/** A failed call: an error code of the API, or `unreachable` if there was no response. */
export class ApiError extends Error {
  readonly code: ErrorCode | 'unreachable'

  constructor(code: ApiError['code'], message: string) {
    super(message)
    this.code = code
  }
}

/** Whether the last call reached the API, and the listeners for changes. */
let reached = true
const listeners = new Set<(reached: boolean) => void>()

/** Calls `listener` when the API becomes unreachable or reachable again. Returns a function that stops this. */
export function onReachability(listener: (reached: boolean) => void): () => void {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

function note(now: boolean): void {
  if (now === reached) return
  reached = now
  for (const listener of listeners) listener(now)
}

/** Calls the API. Throws an `ApiError` whose message can be shown to the user. */
export async function call<Answer>(method: string, path: string, body?: unknown): Promise<Answer> {
  let response: Response
  let text: string
  try {
    response = await fetch(path, {
      method,
      headers: { [CSRF]: '1', ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    text = await response.text()
  } catch {
    throw unreachable()
  }
  const answer = parse(text)
  // A proxy in front of the API may respond instead.
  if (!response.ok && (answer === undefined || !('code' in answer))) throw unreachable()
  note(true)
  if (response.ok || answer === undefined) return answer as Answer
  throw new ApiError(answer.code, sentence(answer, Number(response.headers.get('retry-after'))))
}

/** The message to show to the user. */
export function messageOf(error: unknown): string {
  return error instanceof ApiError ? error.message : 'Something went wrong on this page. Reload it.'
}

function parse(text: string): Problem | undefined {
  try {
    return text === '' ? undefined : (JSON.parse(text) as Problem)
  } catch {
    return undefined
  }
}

function unreachable(): ApiError {
  note(false)
  return new ApiError('unreachable', 'The API cannot be reached. Check that it is running, then try again.')
}

const FIELDS: Readonly<Record<string, string>> = {
  email: 'e-mail address',
  password: 'password',
  current_password: 'current password',
  new_password: 'new password',
  name: 'name',
}

function sentence({ code, detail, errors, request_id: id }: Problem, retryAfter: number): string {
  switch (code) {
    case 'rate_limited':
      return `Too many attempts. Wait ${duration(retryAfter)}, then try again.`
    case 'unavailable':
      return 'The service is temporarily unavailable. Try again in a moment.'
    case 'internal_error':
      return `Internal error. Report it with the request id ${id}.`
    case 'email_taken':
      return `${detail} Sign in, or use another address.`
    default: {
      const [first] = errors ?? []
      const field = FIELDS[first?.field ?? '']
      return first && field !== undefined ? `The ${field} ${first.message}.` : detail
    }
  }
}

function duration(seconds: number): string {
  if (!(seconds > 1)) return 'a moment'
  return seconds <= 90 ? `${seconds} seconds` : `${Math.ceil(seconds / 60)} minutes`
}
