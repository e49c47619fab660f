/** Calls to the API, with progress on the terminal and errors for a person. */
import { StaticError } from '@static/protocol'
import { type AccountSettings, apiRefusal, type ApiCall, callApi } from '@static/sdk/account'
import { withProgress } from '../terminal/progress.ts'

/** A call below the address of the API. */
export interface ApiRequest extends Pick<ApiCall, 'method' | 'apiKey' | 'body' | 'headers'> {
  readonly path: string
  /** What the terminal shows while it takes long. */
  readonly doing: string
}

/** The API's answer to a request that succeeded. */
export interface ApiReply<Body> {
  readonly body: Body
  readonly cookies: readonly string[]
}

/**
 * Calls the API.
 *
 * @throws {StaticError} with the code of the API's refusal, or `connection_error`
 */
export async function requestApi<Body>(account: AccountSettings, request: ApiRequest): Promise<ApiReply<Body>> {
  const { path, doing, ...call } = request
  const url = new URL(`${account.apiUrl}${path}`)
  const answer = await withProgress(doing, callApi({ ...call, url, ca: account.ca }))
  if (answer.status >= 300) throw withDetails(apiRefusal(url, answer, request.apiKey))
  return { body: answer.json as Body, cookies: answer.headers['set-cookie'] ?? [] }
}

/** The fields that are wrong, in the one sentence that a person sees. */
function withDetails(error: StaticError): StaticError {
  const { errors = [], retryAfter } = error.details
  const fields = errors.map(({ field, message }) => `${field} ${message}`).join('; ')
  const wait = retryAfter === undefined ? '' : ` Try again in ${retryAfter} s.`
  if (fields === '' && wait === '') return error
  const words = fields === '' ? error.message : `${error.message.replace(/\.$/, '')}: ${fields.replace(/\.$/, '')}.`
  return StaticError.of(error.code, `${words}${wait}`, error.details)
}
