/**
 * One page of a listing (ListObjectsV2), as far as it is about parts. Not an XML parser: names of parts contain nothing
 * that XML escapes, and what else is in the bucket is skipped.
 */
import type { Time } from '../../ports.ts'

/** An object that has the name of a part. */
export interface ListedObject {
  readonly key: string
  readonly part: number
  readonly changedAt: Time
}

export interface ListedPage {
  readonly objects: readonly ListedObject[]
  /** Continues the listing; undefined at its end. */
  readonly next: string | undefined
}

const CONTENTS = /<Contents>(.*?)<\/Contents>/gs
const NAME = /<Key>([^<]*)<\/Key>/
const CHANGED = /<LastModified>([^<]*)<\/LastModified>/
const CUT = /<IsTruncated>\s*true\s*<\/IsTruncated>/
const NEXT = /<NextContinuationToken>([^<]*)<\/NextContinuationToken>/
const PART = /^([0-9a-f]{32})\/(0|[1-9][0-9]{0,3})$/
const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }

/** Reads a page of the names below `prefix`. */
export function readPage(text: string, prefix: string): ListedPage {
  const objects: ListedObject[] = []
  for (const [, content = ''] of text.matchAll(CONTENTS)) {
    const name = NAME.exec(content)?.[1] ?? ''
    const [, key, part] = (name.startsWith(prefix) && PART.exec(name.slice(prefix.length))) || []
    const changedAt = Date.parse(CHANGED.exec(content)?.[1] ?? '')
    if (key === undefined || Number.isNaN(changedAt)) continue
    objects.push({ key, part: Number(part), changedAt })
  }
  const next = CUT.test(text) ? NEXT.exec(text)?.[1] : undefined
  return { objects, next: next === undefined ? undefined : unescaped(next) }
}

function unescaped(text: string): string {
  return text.replace(
    /&(?:#(\d{1,7})|#x([0-9a-fA-F]{1,6})|([a-z]{2,4}));/g,
    (whole: string, decimal?: string, hexadecimal?: string, named?: string) => {
      if (named !== undefined) return ENTITIES[named] ?? whole
      const point = Number(decimal ?? `0x${hexadecimal}`)
      return point <= 0x10ffff ? String.fromCodePoint(point) : whole
    },
  )
}
