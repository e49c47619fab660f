/** libsodium, where its prebuilt binary loads: leaner than the same work through node:crypto on the way of every request. */

/** What is used of sodium-native. */
export interface Sodium {
  /** BLAKE2b (RFC 7693) under a key, which makes it a MAC: a quarter of the time of libsodium's HMAC. */
  crypto_generichash(tag: Buffer, message: Uint8Array, key: Buffer): void
  crypto_sign_detached(signature: Buffer, message: Uint8Array, secretKey: Buffer): void
  /** Memory that is kept out of swap and core dumps. */
  sodium_malloc(size: number): Buffer
}

/** The library; undefined where it does not load. */
export async function loadSodium(): Promise<Sodium | undefined> {
  try {
    // @ts-expect-error: it has no types of its own; `Sodium` says what is used.
    return (await import('sodium-native')).default as Sodium
  } catch {
    return undefined
  }
}
