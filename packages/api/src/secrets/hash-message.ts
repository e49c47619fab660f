/** Messages between the API's thread and those that run Argon2. */
import type { Options } from '@node-rs/argon2'

/** The work of a thread: hash a secret, or compare one with a hash. */
export type HashWork =
  | { readonly type: 'hash'; readonly secret: string; readonly options: Options }
  | { readonly type: 'verify'; readonly phc: string; readonly secret: string }

/** The result: the PHC string, or whether they match. */
export type HashResult<Work extends HashWork> = Work['type'] extends 'hash' ? string : boolean

/** The answer of a thread. */
export type HashAnswer = { readonly value: string | boolean } | { readonly failure: string }
