/**
 * Can idle be told from active? A classifier learns from one half of the groups and is tested on the other, over
 * several splits. The distribution of results by chance comes from repeating the test as if other groups had talked
 * first: if traffic does not depend on talk, it does not matter which groups those were.
 */
import { type Chance, chanceOf, shuffled } from './chance.ts'
import { areaUnderCurve, learnAndScore, type Matrix, matrixOf, stacked } from './classifier.ts'
import { FEATURES, mean, quantile, type Sample } from './features.ts'
import type { Phase } from './schedule.ts'

/** Options of a test. */
export interface TrialOptions {
  readonly seed: number
  readonly splits: number
  readonly permutations: number
}

/** The result of a test. */
export interface Trial {
  /** Mean over the splits. */
  readonly auc: number
  /** How often chance alone gives as high a result. */
  readonly p: number
  /** Results by chance: their mean, and the bounds of 95 and 99 % of them. */
  readonly chance: { readonly mean: number; readonly p95: number; readonly p99: number }
  readonly windows: { readonly idle: number; readonly active: number }
  /** The three features that tell most by themselves. */
  readonly best: readonly { readonly feature: string; readonly auc: number }[]
}

/** All windows of a group. */
interface Group {
  readonly phase: Phase
  readonly rows: Matrix
  readonly labels: Uint8Array
}

/** Tests the samples. */
export function tryToTell(samples: readonly Sample[], { seed, splits, permutations }: TrialOptions): Trial {
  const chance = chanceOf(seed)
  const groups = groupsOf(samples)
  const auc = resultOf(groups, splits, chance)
  const byChance = Array.from({ length: permutations }, () => resultOf(reassigned(groups, chance), splits, chance))
  byChance.sort((a, b) => a - b)
  const asGood = byChance.filter((value) => value >= auc).length
  const active = samples.filter(({ isActive }) => isActive).length
  return {
    auc,
    p: (asGood + 1) / (permutations + 1),
    chance: { mean: mean(byChance), p95: quantile(byChance, 0.95), p99: quantile(byChance, 0.99) },
    windows: { idle: samples.length - active, active },
    best: bestFeatures(samples),
  }
}

/** The mean over some splits, without the test: the value of a leak. */
export function worthOf(samples: readonly Sample[], { seed, splits }: Omit<TrialOptions, 'permutations'>): number {
  return resultOf(groupsOf(samples), splits, chanceOf(seed))
}

function groupsOf(samples: readonly Sample[]): Group[] {
  const groups = new Map<number, Sample[]>()
  for (const sample of samples) {
    const known = groups.get(sample.group)
    if (known) known.push(sample)
    else groups.set(sample.group, [sample])
  }
  return [...groups.values()].map((own) => ({
    phase: own[0]!.phase,
    rows: matrixOf(own.map(({ features }) => features)),
    labels: labelsOf(own),
  }))
}

/** The same windows as if other groups, equally many, had talked first. */
function reassigned(groups: readonly Group[], chance: Chance): Group[] {
  const phases = shuffled(
    groups.map(({ phase }) => phase),
    chance,
  )
  return groups.map((group, at) => {
    const phase = phases[at]!
    return phase === group.phase ? group : { ...group, phase, labels: group.labels.map((label) => 1 - label) }
  })
}

/**
 * In each half, equally many groups talk and are idle at any time, so the classifier cannot learn from anything that
 * affects the whole machine at once.
 */
function resultOf(groups: readonly Group[], splits: number, chance: Chance): number {
  const phases = ([0, 1] as const).map((phase) => groups.filter((group) => group.phase === phase))
  const results = Array.from({ length: splits }, () => {
    const halves = phases.map((own) => {
      const mixed = shuffled(own, chance)
      const middle = Math.floor(mixed.length / 2)
      return { train: mixed.slice(0, middle), test: mixed.slice(middle) }
    })
    const train = halves.flatMap((half) => half.train)
    const test = halves.flatMap((half) => half.test)
    const scores = learnAndScore(rowsOf(train), allLabels(train), rowsOf(test))
    return areaUnderCurve(scores, allLabels(test))
  })
  return mean(results)
}

function rowsOf(groups: readonly Group[]): Matrix {
  return stacked(groups.map(({ rows }) => rows))
}

function allLabels(groups: readonly Group[]): Uint8Array {
  return Uint8Array.from(groups.flatMap(({ labels }) => [...labels]))
}

function labelsOf(samples: readonly Sample[]): Uint8Array {
  return Uint8Array.from(samples, ({ isActive }) => Number(isActive))
}

function bestFeatures(samples: readonly Sample[]): Trial['best'] {
  const labels = labelsOf(samples)
  const alone = FEATURES.map((feature, at) => {
    const auc = areaUnderCurve(
      Float64Array.from(samples, ({ features }) => features[at]!),
      labels,
    )
    return { feature, auc: Math.max(auc, 1 - auc) }
  })
  return alone.sort((a, b) => b.auc - a.auc).slice(0, 3)
}
