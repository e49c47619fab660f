/** Prometheus metrics of the port of files. Absent without one. */
import { Counter, Gauge, type Registry } from 'prom-client'
import type { FilesCounts } from '../files/thread-messages.ts'
import type { FilesPlace } from '../ports.ts'

/** The place of files and its counts. */
export interface FilesFigures {
  readonly place: FilesPlace
  readonly counts: FilesCounts
}

/** Sources of numbers that are read on demand. */
export interface FilesSources {
  /** Undefined without files; returns undefined until their port is open. */
  readonly files: (() => FilesFigures | undefined) | undefined
}

export function makeFilesMetrics(registry: Registry, { files }: FilesSources): void {
  if (!files) return
  const gauge = (name: string, help: string, read: (figures: FilesFigures) => number): void => {
    const made: Gauge = new Gauge({
      name,
      help,
      registers: [registry],
      collect: (): void => {
        const figures = files()
        if (figures) made.set(read(figures))
      },
    })
  }
  const counter = (
    name: string,
    help: string,
    read: (counts: FilesCounts) => Readonly<Record<string, number>>,
  ): void => {
    const made: Counter = new Counter({
      name,
      help,
      labelNames: ['way'],
      registers: [registry],
      collect: (): void => {
        const figures = files()
        if (!figures) return
        made.reset()
        for (const [way, count] of Object.entries(read(figures.counts))) made.inc(way === '' ? {} : { way }, count)
      },
    })
  }
  gauge(
    'static_relay_files_open',
    'Whether this node takes files: 1, or 0 without its port or with a disk nearly full.',
    ({ place }) => Number(place === 'open'),
  )
  gauge('static_relay_file_bodies', 'Parts of files under way.', ({ counts }) => counts.bodies)
  counter('static_relay_file_parts_total', 'Parts of files stored (in) and fetched (out).', ({ stored, sent }) => ({
    in: stored.parts,
    out: sent.parts,
  }))
  counter('static_relay_file_bytes_total', 'Bytes of these parts.', ({ stored, sent }) => ({
    in: stored.bytes,
    out: sent.bytes,
  }))
  counter(
    'static_relay_file_bodies_ousted_total',
    'Parts refused or cut off because places were short.',
    ({ ousted }) => ({
      '': ousted,
    }),
  )
}
