/** A plain classifier: logistic regression with a ridge, by Newton's method, and how well it ranks (AUC). */

/** Rows of numbers, all of one length, one after the other. */
export interface Matrix {
  readonly rows: number
  readonly columns: number
  readonly values: Float64Array
}

const RIDGE = 3
const MAX_STEPS = 12
const ENOUGH = 1e-5
/** A column that never changes tells nothing. */
const NO_SPREAD = 1e-12
/** In spreads: a window in which the machine stood still must not outweigh all the others. */
const FARTHEST = 4

/** Makes a matrix of rows. */
export function matrixOf(rows: readonly (readonly number[])[]): Matrix {
  const columns = rows[0]?.length ?? 0
  return { rows: rows.length, columns, values: Float64Array.from(rows.flat()) }
}

/** The rows of several matrices, one after the other. */
export function stacked(parts: readonly Matrix[]): Matrix {
  const columns = parts[0]?.columns ?? 0
  const rows = parts.reduce((sum, part) => sum + part.rows, 0)
  const values = new Float64Array(rows * columns)
  let at = 0
  for (const part of parts) {
    values.set(part.values, at)
    at += part.values.length
  }
  return { rows, columns, values }
}

/** Learns from some rows (labels 0 and 1) and gives a score for others: the higher, the more likely it is a 1. */
export function learnAndScore(train: Matrix, labels: Uint8Array, test: Matrix): Float64Array {
  const scale = scaleOf(train)
  const weights = fit(scaled(train, scale), labels)
  const rows = scaled(test, scale)
  return Float64Array.from({ length: rows.rows }, (_, row) => product(rows, row, weights))
}

/** How likely a row with label 1 has a higher score than one with label 0: 0.5 is guessing, 1 is knowing. */
export function areaUnderCurve(scores: Float64Array, labels: Uint8Array): number {
  const order = Uint32Array.from(scores.keys()).sort((a, b) => scores[a]! - scores[b]!)
  let ones = 0
  let ranks = 0
  for (let at = 0; at < order.length;) {
    let end = at + 1
    while (end < order.length && scores[order[end]!] === scores[order[at]!]) end++
    // Equal scores share the mean of their ranks.
    for (let same = at; same < end; same++) {
      if (labels[order[same]!] !== 1) continue
      ones++
      ranks += (at + end + 1) / 2
    }
    at = end
  }
  const zeros = order.length - ones
  return ones === 0 || zeros === 0 ? 0.5 : (ranks - (ones * (ones + 1)) / 2) / (ones * zeros)
}

interface Scale {
  readonly means: Float64Array
  readonly spreads: Float64Array
}

function scaleOf({ rows, columns, values }: Matrix): Scale {
  const means = new Float64Array(columns)
  const spreads = new Float64Array(columns)
  for (let at = 0; at < values.length; at++) means[at % columns]! += values[at]! / rows
  for (let at = 0; at < values.length; at++) spreads[at % columns]! += (values[at]! - means[at % columns]!) ** 2 / rows
  return { means, spreads: spreads.map((square) => Math.sqrt(square)) }
}

/** Every column around 0 with spread 1, and a first one of ones. */
function scaled({ rows, columns, values }: Matrix, { means, spreads }: Scale): Matrix {
  const wide = columns + 1
  const out = new Float64Array(rows * wide)
  for (let row = 0; row < rows; row++) {
    out[row * wide] = 1
    for (let column = 0; column < columns; column++) {
      const spread = spreads[column]!
      const value = values[row * columns + column]! - means[column]!
      out[row * wide + column + 1] = spread > NO_SPREAD ? Math.max(-FARTHEST, Math.min(FARTHEST, value / spread)) : 0
    }
  }
  return { rows, columns: wide, values: out }
}

function product({ columns, values }: Matrix, row: number, weights: Float64Array): number {
  let sum = 0
  for (let column = 0; column < columns; column++) sum += values[row * columns + column]! * weights[column]!
  return sum
}

function fit(rows: Matrix, labels: Uint8Array): Float64Array {
  const { columns, values } = rows
  const weights = new Float64Array(columns)
  for (let step = 0; step < MAX_STEPS; step++) {
    const gradient = weights.map((weight) => weight * RIDGE)
    const curvature = new Float64Array(columns * columns)
    for (let row = 0; row < rows.rows; row++) {
      const start = row * columns
      const expected = 1 / (1 + Math.exp(-Math.max(-30, Math.min(30, product(rows, row, weights)))))
      const error = expected - labels[row]!
      const weight = expected * (1 - expected)
      for (let i = 0; i < columns; i++) {
        const value = values[start + i]!
        gradient[i]! += error * value
        const part = weight * value
        const line = i * columns
        for (let j = 0; j <= i; j++) curvature[line + j]! += part * values[start + j]!
      }
    }
    for (let i = 0; i < columns; i++) curvature[i * columns + i]! += RIDGE
    const change = solve(curvature, gradient)
    let largest = 0
    for (let i = 0; i < columns; i++) {
      weights[i]! -= change[i]!
      largest = Math.max(largest, Math.abs(change[i]!))
    }
    if (largest < ENOUGH) break
  }
  return weights
}

/** Solves a symmetric positive system, of which the lower half is given, by Cholesky's method. */
function solve(lower: Float64Array, right: Float64Array): Float64Array {
  const size = right.length
  for (let i = 0; i < size; i++) {
    for (let j = 0; j <= i; j++) {
      let sum = lower[i * size + j]!
      for (let k = 0; k < j; k++) sum -= lower[i * size + k]! * lower[j * size + k]!
      lower[i * size + j] = i === j ? Math.sqrt(sum) : sum / lower[j * size + j]!
    }
  }
  const out = Float64Array.from(right)
  for (let i = 0; i < size; i++) {
    for (let k = 0; k < i; k++) out[i]! -= lower[i * size + k]! * out[k]!
    out[i]! /= lower[i * size + i]!
  }
  for (let i = size - 1; i >= 0; i--) {
    for (let k = i + 1; k < size; k++) out[i]! -= lower[k * size + i]! * out[k]!
    out[i]! /= lower[i * size + i]!
  }
  return out
}
