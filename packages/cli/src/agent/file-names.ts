/** What senders say about their files, as people read it: they can choose a name that reads like a line of ours. */
import { printable } from '../terminal/output.ts'

const PLAIN = /^[\w.@+=,-]+$/
/** Fits into a line of a narrow terminal together with what we say before it. */
const MOST_CHARACTERS = 48
const TOKEN = '[\\w.+-]{1,60}'
const TYPE = new RegExp(`^${TOKEN}/${TOKEN}$`)
const TYPE_WITH_PARAMETERS = new RegExp(`^${TOKEN}/${TOKEN}(?:; ?${TOKEN}="?${TOKEN}"?){0,4}$`)

/** A plain name as it is, shortened; any other in quotes. */
export function shownFileName(name: string): string {
  const signs = Array.from(name)
  const isLong = signs.length > MOST_CHARACTERS
  const start = isLong ? `${signs.slice(0, MOST_CHARACTERS).join('')}…` : name
  return PLAIN.test(name) ? start : JSON.stringify(printable(start))
}

/** The media type that a sender gave, if it is one. */
export function plainType(type: string): string | undefined {
  return TYPE.test(type) ? type : undefined
}

/** The same with parameters, for programs. */
export function mediaType(type: string): string | undefined {
  return TYPE_WITH_PARAMETERS.test(type) ? type : undefined
}
