/** A message as plain Maps, arrays and scalars, by protobuf-es' own reflection: the way that the oracle goes. */
import type { DescMessage, Message } from '@bufbuild/protobuf'
import { reflect, type ReflectList, type ReflectMap, type ReflectMessage } from '@bufbuild/protobuf/reflect'

export function toPlain(type: DescMessage, message: Message): Map<number, unknown> {
  return plainMessage(reflect(type, message))
}

function plainMessage(message: ReflectMessage): Map<number, unknown> {
  const plain = new Map<number, unknown>()
  for (const field of message.sortedFields) {
    if (!message.isSet(field)) continue
    const value: unknown = message.get(field)
    if (field.fieldKind === 'list') plain.set(field.number, Array.from(value as ReflectList, plainValue))
    else if (field.fieldKind === 'map') {
      plain.set(field.number, new Map(Array.from(value as ReflectMap, ([key, each]) => [key, plainValue(each)])))
    } else plain.set(field.number, plainValue(value))
  }
  return plain
}

const plainValue = (value: unknown): unknown =>
  typeof value === 'object' && value !== null && 'sortedFields' in value ? plainMessage(value as ReflectMessage) : value
