/** The address of an agent behind a proxy, from its 4 or 16 bytes; undefined for other lengths. */
export function addressText(bytes: Uint8Array): string | undefined {
  if (bytes.length === 4) return bytes.join('.')
  if (bytes.length !== 16) return undefined
  const groups: string[] = []
  for (let at = 0; at < 16; at += 2) groups.push((((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0)).toString(16))
  return groups.join(':')
}
