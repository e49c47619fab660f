/** Whether the service is ready, as the API reports it. */
import type { Readiness } from '@static/protocol'
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { ApiError, call, onReachability } from './api.ts'

const EVERY_MS = 30_000

export function Health(): JSX.Element {
  const [lights, setLights] = useState<readonly Light[]>([])
  useEffect(() => {
    const look = async (): Promise<void> => {
      // A hidden page does not poll.
      if (document.visibilityState === 'visible') setLights(await ask())
    }
    void look()
    // This must not contradict what the rest of the page has just found out.
    const stop = onReachability((reached) => (reached ? void look() : setLights(UNREACHABLE)))
    const timer = setInterval(() => void look(), EVERY_MS)
    const onVisible = (): void => void look()
    document.addEventListener('visibilitychange', onVisible)
    return () => {
      stop()
      clearInterval(timer)
      document.removeEventListener('visibilitychange', onVisible)
    }
  }, [])
  return (
    <ul class="health" aria-label="Service">
      {lights.map(({ name, state, good }) => (
        <li key={name} class={good === undefined ? undefined : good ? 'good' : 'bad'}>
          {name}: {state}
        </li>
      ))}
    </ul>
  )
}

interface Light {
  readonly name: string
  readonly state: string
  /** Undefined: unknown. */
  readonly good: boolean | undefined
}

const UNREACHABLE: readonly Light[] = [{ name: 'API', state: 'unreachable', good: false }]

async function ask(): Promise<readonly Light[]> {
  try {
    const { relay } = await call<Readiness>('GET', '/health/ready')
    return [
      { name: 'API', state: 'ready', good: true },
      relay === undefined
        ? { name: 'Relay', state: 'not monitored by this API', good: undefined }
        : { name: 'Relay', state: relay === 'ok' ? 'ready' : 'unavailable', good: relay === 'ok' },
    ]
  } catch (error) {
    const answered = error instanceof ApiError && error.code !== 'unreachable'
    return answered ? [{ name: 'API', state: 'not ready', good: false }] : UNREACHABLE
  }
}
