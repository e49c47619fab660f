/** The current view, from the fragment of the address, which browsers never send. */
import { useEffect, useState } from 'preact/hooks'

/** The views of a signed-in user, in the order of the navigation. */
export const VIEWS = { keys: 'Keys', usage: 'Usage', account: 'Account' } as const
export type View = keyof typeof VIEWS

/** The view's name in the address; it may be any text. */
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

/** Announces a new view: sets the title of the tab, and moves the focus to the start of the view. */
export function enterView(title: string, start: HTMLElement | null): void {
  document.title = `${title} · Static console`
  start?.focus()
}
