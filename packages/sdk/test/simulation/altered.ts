/** What a relay says, with one or two fields of it changed: numbers by a little or a lot, bytes by a bit or to others. */
import type { ServerMessage } from '@static/protocol/relay'
import type { World } from '@static/testkit/world'

type Plain = Record<string, unknown>

/** The same with a change somewhere. */
export function altered(world: World, body: ServerMessage['body']): ServerMessage['body'] {
  const changed = structuredClone(body)
  const fields = changed.case === undefined ? [] : fieldsOf(changed.value)
  for (let round = 1 + world.below(2); round > 0; round--) {
    const field = world.pick(fields)
    if (field) field.holder[field.name] = other(world, field.holder[field.name])
  }
  return changed
}

/** Every field that holds a value, however deep. */
function fieldsOf(holder: object): { readonly holder: Plain; readonly name: string }[] {
  return Object.entries(holder).flatMap(([name, value]: [string, unknown]) => {
    if (name === '$typeName' || value === undefined) return []
    if (typeof value === 'object' && value !== null && !(value instanceof Uint8Array)) return fieldsOf(value)
    return [{ holder: holder as Plain, name }]
  })
}

function other(world: World, value: unknown): unknown {
  if (typeof value === 'bigint') return world.pick([value + 1n, value > 0n ? value - 1n : 5n, 0n, value + 1000n])
  if (typeof value === 'number') return world.pick([value + 1, Math.max(0, value - 1), 0])
  if (typeof value === 'boolean') return !value
  if (typeof value === 'string') return world.pick(['', `${value}x`])
  if (!(value instanceof Uint8Array) || value.length === 0) return value
  const at = world.below(value.length)
  return world.pick([value.with(at, (value[at] ?? 0) ^ 1), new Uint8Array(value.length), value.slice(0, at)])
}
