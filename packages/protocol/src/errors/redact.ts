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

/** Deep enough for every chain of causes; a circular one ends here. */
const MOST_CAUSES = 8

/** Takes secrets out of an error that is the cause of another: its message, stack and fields, and its own cause. */
export function redactError(error: unknown, causes: number = MOST_CAUSES): void {
  if (!(error instanceof Error) || causes === 0) return
  for (const field of Object.getOwnPropertyNames(error)) {
    const value: unknown = Reflect.get(error, field)
    if (typeof value === 'string' && redactSecrets(value) !== value) Reflect.set(error, field, redactSecrets(value))
  }
  redactError(error.cause, causes - 1)
}
