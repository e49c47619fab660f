/** Which view is shown: it stands in the part of the address that is never sent. */
import { useEffect, useState } from 'preact/hooks'

/** The views of somebody who is signed in, in the order of the navigation. */
export const VIEWS = { keys: 'Keys', usage: 'Usage', account: 'Account' } as const
export type View = keyof typeof VIEWS

/** The name in the address; anything may stand there. */
export function useView(): string {
  const [view, setView] = useState(current)
  useEffect(() => {
    const follow = (): void => setView(current())
    addEventListener('hashchange', follow)
    return () => removeEventListener('hashchange', follow)
  }, [])
  return view
}

function current(): string {
  return location.hash.replace(/^#\//, '')
}

/** Tells everybody that the view is another: by the tab's title, and by the focus on where it begins. */
export function enterView(title: string, start: HTMLElement | null): void {
  document.title = `${title} · Static console`
  start?.focus()
}
