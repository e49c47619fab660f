// Preloaded into a process: moves its clock, in all threads, by the milliseconds in a file.
import { readFileSync } from 'node:fs'

const file = process.env['STATIC_CHAOS_CLOCK']
const Real = Date
let moved = 0

globalThis.Date = class extends Real {
  constructor(...given) {
    super(...(given.length === 0 ? [Real.now() + moved] : given))
  }
  static now() {
    return Real.now() + moved
  }
  static [Symbol.hasInstance](value) {
    return Real[Symbol.hasInstance].call(Real, value)
  }
}

setInterval(() => {
  try {
    moved = Number(readFileSync(file, 'utf8'))
  } catch {
    moved = 0
  }
}, 100).unref()
