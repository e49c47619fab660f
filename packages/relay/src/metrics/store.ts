/** Prometheus metrics of what a relay stores and has leased, and of its build. Reading them scans no table. */
import { Gauge, type Registry } from 'prom-client'
import type { LeaseCounts } from '../core/accounts/quota.ts'
import type { Durability, StoreCensus, Time } from '../ports.ts'

/** Sources of numbers that are read on demand. */
export interface StoreSources {
  readonly leases: () => LeaseCounts
  /** What the store held at its last count. */
  readonly census: () => StoreCensus | undefined
  readonly durability: () => Durability
  /** How far the store's clock is ahead of ours; undefined if it is our own. */
  readonly storeClockOffsetMs: () => number | undefined
  /** Free bytes on the disk of the store; undefined if it has none. */
  readonly diskFree: () => Promise<number | undefined>
  readonly now: () => Time
  readonly version: string
}

/** Creates the metrics. Those of the store are absent until it has counted for the first time. */
export function makeStoreMetrics(registry: Registry, sources: StoreSources): void {
  const { leases, census, diskFree, now, version } = sources
  const gauge = (name: string, help: string, read: () => number | undefined | Promise<number | undefined>): void => {
    const made: Gauge = new Gauge({
      name,
      help,
      registers: [registry],
      collect: async (): Promise<void> => {
        const value = await read()
        if (value === undefined) made.remove()
        else made.set(value)
      },
    })
  }
  gauge('static_relay_channels', 'Channels.', () => census()?.channels)
  gauge('static_relay_log_bytes', 'Bytes of all channel logs.', () => census()?.logBytes)
  gauge('static_relay_database_bytes', 'Size of the database file.', () => census()?.fileBytes)
  gauge(
    'static_relay_database_free_bytes',
    'Part of the database file that is free for reuse.',
    () => census()?.freeBytes,
  )
  gauge('static_relay_disk_free_bytes', 'Free space on the disk of the database.', diskFree)
  gauge('static_relay_oldest_unread_seconds', 'Age of the oldest entry that some member has not fetched.', () => {
    const held = census()
    if (!held) return undefined
    return held.oldestAt === undefined ? 0 : Math.max(0, (now() - held.oldestAt) / 1000)
  })
  gauge('static_relay_leases', 'Open quota leases.', () => leases().open)
  gauge('static_relay_lease_units', 'Unspent messages of open leases.', () => leases().unspent)
  gauge('static_relay_lease_waiting', 'Requests waiting for a lease.', () => leases().waiting)
  gauge('static_relay_lease_refused', 'Accounts for which the API currently grants no quota.', () => leases().refused)
  gauge('static_relay_store_clock_offset_seconds', "How far the database's clock is ahead of this node's.", () => {
    const offset = sources.storeClockOffsetMs()
    return offset === undefined ? undefined : offset / 1000
  })
  const durability: Gauge = new Gauge({
    name: 'static_relay_store_info',
    help: 'What an acknowledged message survives: memory, fsync, fsync+standby.',
    labelNames: ['durability'],
    registers: [registry],
    collect: (): void => {
      durability.reset()
      durability.set({ durability: sources.durability() }, 1)
    },
  })
  new Gauge({
    name: 'static_relay_build_info',
    help: 'Versions of Static and of Node.',
    labelNames: ['version', 'node'],
    registers: [registry],
  }).set({ version, node: process.version }, 1)
}
