/** Several runs taken together. A leak too small for one run shows when all of them lean the same way. */
import { type Finding, type Findings, rounded, type WayFindings } from './findings.ts'
import { WAYS } from './scene.ts'

/** The p of several independent tests of one hypothesis (Fisher's method). */
export function fisher(ps: readonly number[]): number {
  // -2 Σ ln p has a chi-squared distribution with 2k degrees of freedom; for an even number of them its tail is a sum.
  const half = -ps.reduce((sum, p) => sum + Math.log(p), 0)
  let [term, sum] = [1, 1]
  for (let at = 1; at < ps.length; at++) {
    term *= half / at
    sum += term
  }
  return Math.min(1, Math.exp(-half) * sum)
}

/** Runs as one: mean AUCs, pooled ps; everything else as in the first run. */
export function pooled(runs: readonly Findings[]): Findings {
  const [first] = runs
  if (!first) throw new Error('There is no run to pool.')
  if (runs.length === 1) return first
  const ways = Object.fromEntries(WAYS.map((way) => [way, ofWay(runs.map((run) => run.ways[way]))])) as Findings['ways']
  return { ...first, ways, runs: runs.map(({ seed }) => ({ seed })) }
}

function ofWay(runs: readonly WayFindings[]): WayFindings {
  const [first] = runs as readonly [WayFindings]
  const kinds = Object.keys(first.profiles) as (keyof WayFindings['profiles'])[]
  const profiles = Object.fromEntries(
    kinds.map((kind) => [kind, together(runs.flatMap(({ profiles: { [kind]: finding } }) => finding ?? []))]),
  )
  const leaks = runs.flatMap(({ plantedLeak }) => plantedLeak ?? [])
  const differences = [...new Set(runs.flatMap(({ likeness }) => likeness?.differences ?? []))]
  return {
    profiles,
    strictTries: runs.flatMap(({ strictTries }) => strictTries),
    ...(first.likeness && { likeness: { ...first.likeness, differences } }),
    // Each run must find its own.
    ...(first.plantedLeak && { plantedLeak: { ...first.plantedLeak, p: Math.max(...leaks.map(({ p }) => p)) } }),
  }
}

function together(findings: readonly Finding[]): Finding {
  const [first] = findings as readonly [Finding]
  const auc = findings.reduce((sum, finding) => sum + finding.auc, 0) / findings.length
  return { ...first, auc: rounded(auc), p: rounded(fisher(findings.map(({ p }) => p))) }
}
