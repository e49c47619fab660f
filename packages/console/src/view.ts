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

/** A view, and what the address names in it. */
export interface Place {
  /** The view's name in the address, which may be any text. */
  readonly view: string
  /** The id of a channel. */
  readonly item: string
  /** The one-time token from the operator's link. */
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

let last: Place = { view: '', item: '', token: '' }

function current(): Place {
  const [view = '', second = ''] = location.hash.replace(/^#\//, '').split('/')
  const [item, token] = view === 'channels' ? [second, ''] : ['', second]
  // A token must stay neither on the screen nor in the history.
  if (token !== '') history.replaceState(null, '', `#/${view}`)
  // The event for the address with the token may arrive after the token was removed from the address.
  if (token !== '' || view !== last.view || item !== last.item) last = { view, item, token }
  return last
}

/** Announces a new view: sets the title of the tab, and moves the focus to the start of the view. */
export function enterView(title: string, start: HTMLElement | null): void {
  nameView(title)
  start?.focus()
}

/** Sets the title of the tab. */
export function nameView(title: string): void {
  document.title = `${title} · Static console`
}
