/**
 * Removes secrets from texts that people and logs see. Errors quote wrong values, and a mistyped command or call may
 * contain a key, token or link (SPEC.md, 1.4, 1.8, 6.1, 6.4) where a name belongs. Best effort: a secret is recognised
 * by its prefix, so one without it is missed.
 */

/** A secret continues up to a space or quote. */
const SIGN = '[^\\s\'"`]'
/**
 * URLs may have escaped the characters of a prefix, those of a link even twice, or the character before it, as JSON
 * does.
 */
const BAR = '(?:_|%5F)'
const KEY = `sk${BAR}(?:live|test)${BAR}`
const INVITE = `st${BAR}inv${BAR}`
const LINK = 'static(?::|%(?:25)?3A)(?:/|%(?:25)?2F){1,2}'
const ONE_TIME = `(?:(?<!\\w)|(?<=%[0-9A-F]{2})|(?<=\\\\[bfnrt]))(?:pw|su)${BAR}`
/** Pasting can break a secret into several words, which are long. */
const FURTHER = '[\\s,]+[\\w-]{20,}'

/**
 * API keys, invite tokens, invite links, even as part of a path or URL, and one-time tokens. The first 8 characters of
 * a key and the first 10 of a one-time token identify them in lists, so these alone are not secret. Strangers choose
 * some of these texts, so a prefix has a fixed length: if it could repeat the characters that follow it, matching would
 * take quadratic time in the text's length.
 */
const WHOLE = `(${KEY}(?=${SIGN}{8,}[\\w-])|${INVITE}|${LINK}|${ONE_TIME}(?=${SIGN}{10,}[\\w-]))${SIGN}*[\\w-](?:${FURTHER})*`
/** A secret broken so early that only its further words are secret. */
const BROKEN = `(${KEY}|${INVITE}|${LINK}|${ONE_TIME})[\\w-]{0,10}(?:${FURTHER})+`
const SECRET = new RegExp(`${WHOLE}|${BROKEN}`, 'gi')

/** The text with `…` in place of everything after the prefix of each secret in it. */
export function redactSecrets(text: string): string {
  return text.replaceAll(SECRET, '$1$2…')
}

/** The number of objects examined in one value: more than any chain of causes has, and more than anyone would read. */
const MOST_OBJECTS = 64
/** The number of fields examined in one object. */
const MOST_FIELDS = 1000

/** The results for the objects seen so far; a circular value is visited once. */
type Seen = Map<object, unknown>

/**
 * Removes secrets from a value that an error carries, and returns it. It covers texts, errors, plain objects and
 * arrays, and those in their fields: the first 64 in total, with 1,000 fields each. An error is changed in place,
 * unless it is frozen; for other objects, which may be in use elsewhere, a changed copy is returned. Other kinds of
 * objects are left alone. Never throws.
 */
export function redactValue(value: unknown, seen: Seen = new Map()): unknown {
  if (typeof value === 'string') return redactSecrets(value)
  if (typeof value !== 'object' || value === null) return value
  if (seen.has(value)) return seen.get(value)
  if (seen.size >= MOST_OBJECTS) return '…'
  seen.set(value, value)
  try {
    if (isError(value)) seen.set(value, redactError(value, seen))
    else if (isPlain(value)) seen.set(value, redactPlain(value, seen))
    return seen.get(value)
  } catch {
    // It cannot be inspected, such as a revoked proxy.
    return '…'
  }
}

/** Errors from other realms, such as a `vm` context, are instances of other classes. */
function isError(value: object): boolean {
  return value instanceof Error || Object.prototype.toString.call(value) === '[object Error]'
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return Array.isArray(value) || prototype === null || Object.getPrototypeOf(prototype) === null
}

function redactError(error: object, seen: Seen): object {
  const fields = new Map<PropertyKey, unknown>()
  let isStuck = false
  // The message may be inherited, as a getter of the class.
  for (const name of new Set([...fieldsOf(error), 'message'])) {
    const value = read(error, name)
    const shown = redactValue(value, seen)
    fields.set(name, shown)
    if (!Object.is(value, shown) && !write(error, name, shown)) isStuck = true
  }
  if (!isStuck) return error
  const copy: object = Object.setPrototypeOf(new Error('…'), Object.getPrototypeOf(error))
  for (const [name, value] of fields) define(copy, name, value, false)
  return copy
}

function redactPlain(value: object, seen: Seen): object {
  const copy = Array.isArray(value) ? [] : {}
  seen.set(value, copy)
  let isSame = Reflect.ownKeys(value).length <= MOST_FIELDS
  for (const name of fieldsOf(value)) {
    if (name === 'length' && Array.isArray(value)) continue
    const field = read(value, name)
    const shown = redactValue(field, seen)
    const shownName = typeof name === 'string' ? redactSecrets(name) : name
    isSame &&= Object.is(field, shown) && name === shownName
    define(copy, shownName, shown, true)
  }
  return isSame ? value : copy
}

function fieldsOf(object: object): PropertyKey[] {
  return Reflect.ownKeys(object).slice(0, MOST_FIELDS)
}

/** A getter may throw. */
function read(object: object, name: PropertyKey): unknown {
  try {
    return Reflect.get(object, name)
  } catch {
    return undefined
  }
}

/** Returns whether the field now has the value. */
function write(object: object, name: PropertyKey, value: unknown): boolean {
  try {
    Reflect.set(object, name, value)
    return Object.is(Reflect.get(object, name), value) || define(object, name, value, false)
  } catch {
    return false
  }
}

function define(object: object, name: PropertyKey, value: unknown, enumerable: boolean): boolean {
  return Reflect.defineProperty(object, name, { value, enumerable, writable: true, configurable: true })
}
