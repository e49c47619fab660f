/** The page: the sign-in view, or the views of the signed-in user. */
import type { Account as AccountAnswer } from '@static/protocol'
import type { JSX, RefObject } from 'preact'
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { Account } from './views/account.tsx'
import { Activity } from './views/activity.tsx'
import { Channel } from './views/channel.tsx'
import { Channels } from './views/channels.tsx'
import { ApiError, call, messageOf } from './api.ts'
import { Problem } from './form.tsx'
import { Health } from './health.tsx'
import { Keys } from './views/keys.tsx'
import { NewKey } from './views/new-key.tsx'
import { type SecretKey, type Session, SessionContext } from './session.ts'
import { NotFound } from './views/not-found.tsx'
import { SetPassword } from './views/set-password.tsx'
import { SignIn } from './views/sign-in.tsx'
import { Trust } from './views/trust.tsx'
import { Usage } from './views/usage.tsx'
import { enterView, usePlace, type View, VIEWS } from './view.ts'
import { useWho } from './who.ts'

/** Views that everyone can open; they have no navigation. */
const PUBLIC: ReadonlySet<string> = new Set(['set-password', 'trust'])
/** Addresses of the signed-out: once signed in, they lead to the first view. */
const ENTRANCES: ReadonlySet<string> = new Set(['', 'sign-in', 'sign-up'])

/** How long a result stays visible. */
const RESULT_MS = 8000

export function App(): JSX.Element {
  const { who, setWho, look } = useWho()
  const [secret, setSecret] = useState<SecretKey>()
  const { view, item, token } = usePlace()
  const [result, say] = useResult(view)
  const main = useRef<HTMLElement>(null)

  const end = useCallback(
    (note: string) => {
      say('')
      setWho({ is: 'out', note })
    },
    [say, setWho],
  )
  const account = who.is === 'in' ? who.account : undefined
  const session = useMemo<Session | undefined>(
    () => account && { account, show: setSecret, say, end },
    [account, say, end],
  )

  const enter = (entered: AccountAnswer): void => {
    setWho({ is: 'in', account: entered })
    location.hash = '#/keys'
  }
  const signInAgain = (note: string): void => {
    end(note)
    location.hash = '#/sign-in'
  }
  const signOut = async (): Promise<void> => {
    try {
      await call('DELETE', '/v1/sessions/current')
    } catch (error) {
      // Without a session, the user is already signed out.
      if (!(error instanceof ApiError) || error.code !== 'auth_failed') {
        say(messageOf(error))
        return
      }
    }
    end('You are signed out.')
  }

  return (
    <SessionContext.Provider value={session}>
      <SkipLink main={main} />
      <Header view={viewOf(view)} hasNavigation={account !== undefined && !PUBLIC.has(view)} onSignOut={signOut} />
      <main ref={main} id="main" tabIndex={-1}>
        {view === 'set-password' ? (
          <SetPassword token={token} onSignedIn={enter} onSet={signInAgain} />
        ) : view === 'trust' ? (
          <Trust />
        ) : (
          <>
            {who.is === 'unknown' && who.error !== undefined && <Problem error={who.error} retry={look} />}
            {who.is === 'out' && (
              <SignIn
                isNew={view === 'sign-up'}
                invite={token}
                note={who.note}
                show={setSecret}
                onSignedIn={(entered) => setWho({ is: 'in', account: entered })}
              />
            )}
            {who.is === 'in' && <Entered name={view} item={item} />}
          </>
        )}
      </main>
      <Footer />
      <p class="result" role="status">
        {result}
      </p>
      {secret && <NewKey secret={secret} onClose={() => setSecret(undefined)} />}
    </SessionContext.Provider>
  )
}

/** The result that the page shows, and the function that shows another. */
function useResult(view: string): [result: string, say: (text: string) => void] {
  const [result, say] = useState('')
  useEffect(() => {
    const timer = setTimeout(() => say(''), RESULT_MS)
    return () => clearTimeout(timer)
  }, [result])
  // A result belongs to the view that showed it.
  useEffect(() => say(''), [view])
  return [result, say]
}

/** Lets keyboard users skip the navigation. */
function SkipLink({ main }: { main: RefObject<HTMLElement | null> }): JSX.Element {
  return (
    <a
      class="skip"
      href="#main"
      onClick={(event) => {
        // The fragment of the address names the view, so it must not change.
        event.preventDefault()
        main.current?.focus()
      }}
    >
      Skip to content
    </a>
  )
}

interface HeaderProps {
  /** Undefined if the address names no view. */
  readonly view: View | undefined
  /** Whether the user is signed in. */
  readonly hasNavigation: boolean
  readonly onSignOut: () => Promise<void>
}

function Header({ view, hasNavigation, onSignOut }: HeaderProps): JSX.Element {
  return (
    <header>
      <a class="brand" href="#/keys">
        Static
      </a>
      {hasNavigation && (
        <>
          <nav aria-label="Console">
            {Object.entries(VIEWS).map(([name, title]) => (
              <a key={name} href={`#/${name}`} aria-current={name === view ? 'page' : undefined}>
                {title}
              </a>
            ))}
          </nav>
          <button type="button" onClick={() => void onSignOut()}>
            Sign out
          </button>
        </>
      )}
    </header>
  )
}

function Footer(): JSX.Element {
  return (
    <footer>
      <Health />
      <span class="links">
        <a href="#/trust">Browser warning?</a>
        <a href="/docs">API reference</a>
      </span>
    </footer>
  )
}

function viewOf(name: string): View | undefined {
  if (ENTRANCES.has(name)) return 'keys'
  return Object.hasOwn(VIEWS, name) ? (name as View) : undefined
}

const SHOWN: Readonly<Record<View, JSX.Element>> = {
  keys: <Keys />,
  channels: <Channels />,
  usage: <Usage />,
  activity: <Activity />,
  account: <Account />,
}

/** The view that the address names, for a signed-in user. */
function Entered({ name, item }: { name: string; item: string }): JSX.Element {
  const view = viewOf(name)
  if (view === undefined) return <NotFound />
  return view === 'channels' && item !== '' ? <Channel key={item} id={item} /> : <Shown view={view} />
}

function Shown({ view }: { view: View }): JSX.Element {
  const heading = useRef<HTMLHeadingElement>(null)
  useLayoutEffect(() => enterView(VIEWS[view], heading.current), [view])
  return (
    <>
      <h1 ref={heading} tabIndex={-1}>
        {VIEWS[view]}
      </h1>
      {SHOWN[view]}
    </>
  )
}
