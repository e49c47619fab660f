/** Random bytes from a stock: for a few bytes at a time, generating them costs more than everything done with them. */
import { fillRandom, randomBytes } from '#platform/crypto'

const STOCK_BYTES = 4096
/** Longer ones may be secrets, so they are generated when needed. */
const LONGEST = 16

/** Returns a source of random bytes, which erases from the stock the bytes that it returns. */
export function makeRandom(): (bytes: number) => Uint8Array {
  const stock = new Uint8Array(STOCK_BYTES)
  let used = stock.length
  return (bytes) => {
    if (bytes > LONGEST) return randomBytes(bytes)
    if (used + bytes > stock.length) {
      fillRandom(stock)
      used = 0
    }
    const taken = stock.slice(used, used + bytes)
    stock.fill(0, used, used + bytes)
    used += bytes
    return taken
  }
}
