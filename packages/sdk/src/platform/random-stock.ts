/** Random bytes out of a stock: a few bytes at a time, generating them costs more than everything done with them. */
import { fillRandom, randomBytes } from '#platform/crypto'

const STOCK_BYTES = 4096
/** Longer ones may be secrets, and are generated when they are needed. */
const LONGEST = 16

/** Returns a source of random bytes. What it hands out is erased from the stock. */
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
