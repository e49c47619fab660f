/** Calls to the API, with progress on the terminal and readable errors. */
import { StaticError } from '@static/protocol'
import { type AccountSettings, apiRefusal, type ApiCall, callApi } from '@static/sdk/account'
import { withProgress } from '../terminal/progress.ts'

/** A call to a path of the API. */
export interface ApiRequest extends Pick<ApiCall, 'method' | 'apiKey' | 'body' | 'headers'> {
  readonly path: string
  /** Shown on the terminal while the call is slow. */
  readonly doing: string
}

/** A successful response of the API. */
export interface ApiReply<Body> {
  readonly body: Body
  readonly cookies: readonly string[]
}

/**
 * Calls the API.
 *
 * @throws {StaticError} with the code of the API's error response, or `connection_error`
 */
export async function requestApi<Body>(account: AccountSettings, request: ApiRequest): Promise<ApiReply<Body>> {
  const { path, doing, ...call } = request
  const url = new URL(`${account.apiUrl}${path}`)
  const answer = await withProgress(doing, callApi({ ...call, url, ca: account.ca }))
  if (answer.status >= 300) throw withDetails(apiRefusal(url, answer, request.apiKey))
  return { body: answer.json as Body, cookies: answer.headers['set-cookie'] ?? [] }
}

/** Adds the invalid fields and the retry delay to the message. */
function withDetails(error: StaticError): StaticError {
  const { errors = [], retryAfter } = error.details
  // Some errors name the only invalid field themselves.
  const unsaid = errors.filter(({ message }) => !error.message.includes(message))
  const fields = unsaid.map(({ field, message }) => `${field} ${message}`).join('; ')
  const wait = retryAfter === undefined ? '' : ` Try again in ${retryAfter} s.`
  if (fields === '' && wait === '') return error
  const words = fields === '' ? error.message : `${error.message.replace(/\.$/, '')}: ${fields.replace(/\.$/, '')}.`
  return StaticError.of(error.code, `${words}${wait}`, error.details)
}
