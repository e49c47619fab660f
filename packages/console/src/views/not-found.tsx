/** The view of an address that names no view. */
import type { JSX } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { enterView } from '../view.ts'

export function NotFound(): JSX.Element {
  const heading = useRef<HTMLHeadingElement>(null)
  useLayoutEffect(() => enterView('Page not found', heading.current), [])
  return (
    <>
      <h1 ref={heading} tabIndex={-1}>
        Page not found
      </h1>
      <section class="card">
        <p>
          The console has no page at this address. Check the link, or start at <a href="#/keys">your keys</a>.
        </p>
      </section>
    </>
  )
}
