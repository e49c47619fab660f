/** The child's side: reports that it is ready, then answers one question after another until the bench disconnects. */
import type { Ask, Told } from './messages.ts'

/** Answers the questions of the bench. `close` runs when the bench is gone. */
export function serve(answer: (ask: Ask) => Promise<Told>, close: () => Promise<void> = async () => {}): void {
  const tell = (told: Told): void => void process.send?.(told)
  process.on('message', (ask: Ask) => {
    answer(ask).then(tell, (error: unknown) => tell({ type: 'failed', message: String(error) }))
  })
  process.on('disconnect', () => {
    void close().finally(() => process.exit(0))
  })
  tell({ type: 'done', cpu: 0 })
}

/** CPU microseconds of this process so far, all threads. */
export function ownCpu(): number {
  const { user, system } = process.cpuUsage()
  return user + system
}
