/**
 * Takes secrets out of texts that people and logs see. Errors name the value that is wrong, and a mistyped command or
 * call may have put a key, token or link (SPEC.md, 1.4, 1.8, 6.1, 6.4) where a name belongs. Best effort: a secret is
 * recognised by its prefix, so one that lost it is not.
 */

/**
 * API keys, invite tokens, invite links, even as part of a path or URL, and one-time tokens, up to a space or quote. The
 * first 8 characters of a key and the first 10 of a one-time token name them in lists, so these alone are no secret. A
 * paste can break a secret into several words, which are long. Strangers choose some of these texts, so a prefix has a
 * fixed length: one that could repeat what follows it would take time in proportion to the square of the text's length.
 */
const SECRET =
  /(sk_(?:live|test)_(?=[^\s'"`]{8,}[\w-])|st_inv_|static(?::|%3A)(?:\/|%2F){1,2}|(?<!\w)(?:pw|su)_(?=[^\s'"`]{10,}[\w-]))[^\s'"`]*[\w-](?:[\s,]+[\w-]{20,})*/gi

/** The text with `…` in place of everything but the prefix of each secret in it. */
export function redactSecrets(text: string): string {
  return text.replaceAll(SECRET, '$1…')
}

/** Errors of one cause that are looked at: more than any chain of causes has, and than one would read. */
const MOST_ERRORS = 64

/**
 * Takes secrets out of what caused an error, and returns it. Of an error these are its message, stack and fields, and
 * those of the errors in its `cause` and `errors`, the first 64 in all.
 */
export function redactCause(cause: unknown): unknown {
  if (typeof cause === 'string') return redactSecrets(cause)
  // A loop over a set goes on to what is added meanwhile, and meets a circular cause once.
  const found = new Set([cause])
  for (const error of found) {
    if (!(error instanceof Error)) continue
    redactFields(error)
    const causes: unknown[] = [error.cause]
    if (error instanceof AggregateError && Array.isArray(error.errors)) {
      redactFields(error.errors)
      causes.push(...error.errors.slice(0, MOST_ERRORS))
    }
    for (const one of causes) if (found.size < MOST_ERRORS) found.add(one)
  }
  return cause
}

function redactFields(object: object): void {
  for (const field of Object.getOwnPropertyNames(object)) {
    const value: unknown = Reflect.get(object, field)
    if (typeof value === 'string' && redactSecrets(value) !== value) Reflect.set(object, field, redactSecrets(value))
  }
}
