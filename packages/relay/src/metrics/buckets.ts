/** Upper bounds of the buckets, in seconds. */
export const BUCKETS: number[] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5]
