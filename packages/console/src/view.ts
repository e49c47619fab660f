/** The current view, from the fragment of the address, which browsers never send. */
import { useEffect, useState } from 'preact/hooks'

/** The views of a signed-in user, ordered as in the navigation. */
export const VIEWS = {
  keys: 'Keys',
  channels: 'Channels',
  usage: 'Usage',
  activity: 'Activity',
  account: 'Account',
} as const
export type View = keyof typeof VIEWS

/** A view, and the one-time token from the operator's link. */
export interface Place {
  /** The view's name in the address, which may be any text. */
  readonly view: string
  readonly token: string
}

/** Where the user is. */
export function usePlace(): Place {
  const [place, setPlace] = useState(current)
  useEffect(() => {
    const follow = (): void => setPlace(current())
    addEventListener('hashchange', follow)
    // The address may have changed between the first rendering and this effect.
    follow()
    return () => removeEventListener('hashchange', follow)
  }, [])
  return place
}

let last: Place = { view: '', token: '' }

function current(): Place {
  const [view = '', token = ''] = location.hash.replace(/^#\//, '').split('/')
  // A token must stay neither on the screen nor in the history.
  if (token !== '') history.replaceState(null, '', `#/${view}`)
  // The event for the address with the token may arrive after the token was removed from the address.
  if (token !== '' || view !== last.view) last = { view, token }
  return last
}

/** Announces a new view: sets the title of the tab, and moves the focus to the start of the view. */
export function enterView(title: string, start: HTMLElement | null): void {
  document.title = `${title} · Static console`
  start?.focus()
}
