/** How an operator's numbers are laid over the defaults of a server. */
import { StaticError } from './errors/errors.ts'

/**
 * Lays values over defaults, group by group. Numbers are whole and at least 1; `null` (none) is taken in the group that
 * `nullable` names. Throws `invalid_request` naming the first wrong one.
 */
export function overlaySettings<Shape extends object>(defaults: Shape, given: unknown, nullable?: string): Shape {
  return overlay(defaults, given, '', nullable) as Shape
}

function overlay(base: object, given: unknown, path: string, nullable: string | undefined): object {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw StaticError.of('invalid_request', `The setting ${path || 'file'} must be an object.`)
  }
  const result: Record<string, unknown> = { ...base }
  for (const [name, value] of Object.entries(given)) {
    const here = path === '' ? name : `${path}.${name}`
    if (!Object.hasOwn(result, name)) throw StaticError.of('invalid_request', `There is no setting ${here}.`)
    const standard = result[name]
    if (typeof standard === 'object' && standard !== null) {
      result[name] = overlay(standard, value, here, nullable)
    } else if ((value === null && path === nullable) || (Number.isSafeInteger(value) && Number(value) >= 1)) {
      result[name] = value
    } else {
      throw StaticError.of('invalid_request', `The setting ${here} must be a whole number of at least 1.`)
    }
  }
  return result
}
