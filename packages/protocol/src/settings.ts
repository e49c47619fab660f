/** Overrides the default settings of a server with the operator's values. */
import { StaticError } from './errors/errors.ts'

/**
 * Overrides defaults with the given values, group by group. Numbers must be whole and at least 1; `null` (no limit) is
 * allowed only in the groups `nullable`. Throws `invalid_request` naming the first invalid setting.
 */
export function overlaySettings<Shape extends object>(
  defaults: Shape,
  given: unknown,
  nullable: readonly string[] = [],
): Shape {
  return overlay(defaults, given, '', nullable) as Shape
}

function overlay(base: object, given: unknown, path: string, nullable: readonly string[]): object {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    const what = path === '' ? 'The settings' : `The setting ${path}`
    throw StaticError.of('invalid_request', `${what} must be an object.`)
  }
  const result: Record<string, unknown> = { ...base }
  for (const [name, value] of Object.entries(given)) {
    const here = path === '' ? name : `${path}.${name}`
    if (!Object.hasOwn(result, name)) throw StaticError.of('invalid_request', `Unknown setting ${here}.`)
    const standard = result[name]
    if (typeof standard === 'object' && standard !== null) {
      result[name] = overlay(standard, value, here, nullable)
    } else if ((value === null && nullable.includes(path)) || (Number.isSafeInteger(value) && Number(value) >= 1)) {
      result[name] = value
    } else {
      // Not every value has a JSON form, regardless of the type.
      const found: string | undefined = JSON.stringify(value)
      const not = found === undefined ? '' : `, not ${found.slice(0, 40)}`
      throw StaticError.of('invalid_request', `The setting ${here} must be a whole number of at least 1${not}.`)
    }
  }
  return result
}
