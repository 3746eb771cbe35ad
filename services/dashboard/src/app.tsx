import { useCallback, useEffect, useMemo, useState } from 'preact/hooks'
import type { Api } from './data/admin-calls.ts'
import { createApi } from './data/api.ts'
import type { Caller } from './data/caller.ts'
import { LiveFeed } from './data/live-feed.ts'
import { type LiveState, NOTHING_LIVE } from './data/live-state.ts'
import { usePoll } from './data/poll.ts'
import { linkTo, type Route, useRoute } from './data/route.ts'
import { forgetToken, savedToken, saveToken } from './data/session.ts'
import { Changes } from './pages/changes.tsx'
import { Explain } from './pages/explain.tsx'
import { Keys } from './pages/keys.tsx'
import { Overview } from './pages/overview.tsx'
import { Policies } from './pages/policies.tsx'
import { PolicyPage } from './pages/policy.tsx'
import { SignIn } from './pages/sign-in.tsx'
import { Strip } from './parts/strip.tsx'

const TABS = [
  ['overview', 'Overview'],
  ['policies', 'Policies'],
  ['keys', 'Keys'],
  ['explain', 'Explain'],
  ['changes', 'Changes'],
] as const

/** Whose a token is changes seldom; that it is revoked is told by the first refusal. */
const CALLER_MS = 60_000

/** The page: who is signed in, and which view the address names. */
export function App() {
  const [token, setToken] = useState(savedToken)
  const [notice, setNotice] = useState<string | null>(null)
  // A refusal may come late, when somebody has signed in anew: theirs is another token.
  const leave = useCallback((left: string, why: string | null): void => {
    if ((savedToken() ?? left) !== left) return
    forgetToken()
    setNotice(why)
    setToken(null)
  }, [])
  if (token === null) {
    const enter = (given: string): void => {
      saveToken(given)
      setNotice(null)
      setToken(given)
    }
    return <SignIn notice={notice} onToken={enter} />
  }
  return <SignedIn key={token} token={token} onLeave={leave} />
}

/** What every view is given. */
export interface ViewProps {
  readonly api: Api
  readonly route: Route
  readonly live: LiveState
  readonly caller: Caller
}

function SignedIn(props: {
  readonly token: string
  readonly onLeave: (token: string, why: string | null) => void
}) {
  const { token, onLeave } = props
  const [chosen, setChosen] = useState<string | null>(null)
  const [caller, setCaller] = useState<Caller | null>(null)
  // A token that is limited to domains reads one of them at a time.
  const domain = chosen ?? caller?.domains?.[0] ?? null
  const api = useMemo(
    () =>
      createApi({
        ...{ token, domain },
        onSignedOut: () => onLeave(token, 'That token is not taken any more.'),
      }),
    [token, domain, onLeave],
  )
  const whoami = usePoll<Caller>(api, '/v1/whoami', CALLER_MS)
  useEffect(() => {
    if (whoami.data !== null) setCaller(whoami.data)
  }, [whoami.data])
  return (
    <>
      <a class="skip" href="#main">
        Skip to the view
      </a>
      <Header
        caller={caller}
        domain={domain}
        onDomain={setChosen}
        onLeave={() => onLeave(token, null)}
      />
      <main id="main" tabIndex={-1}>
        {caller === null ? (
          <p role="status">{whoami.problem ?? 'Loading'}</p>
        ) : (
          <Live api={api} caller={caller} />
        )}
      </main>
    </>
  )
}

function Header(props: {
  readonly caller: Caller | null
  readonly domain: string | null
  readonly onDomain: (domain: string) => void
  readonly onLeave: () => void
}) {
  const { caller, domain, onDomain, onLeave } = props
  const { page } = useRoute()
  return (
    <header class="top">
      <a class="brand" href={linkTo('overview')}>
        Quotaplane
      </a>
      <nav aria-label="Views">
        {TABS.map(([name, title]) => (
          <a key={name} href={linkTo(name)} aria-current={name === page ? 'page' : undefined}>
            {title}
          </a>
        ))}
      </nav>
      {caller?.domains && (
        <label>
          Domain{' '}
          <select value={domain ?? ''} onChange={(event) => onDomain(event.currentTarget.value)}>
            {caller.domains.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
      )}
      {caller !== null && (
        <span class="hint" title={caller.scopes.join(', ')}>
          {caller.actor}
        </span>
      )}
      <button type="button" class="quiet" onClick={onLeave}>
        Sign out
      </button>
    </header>
  )
}

/** The view, with what is live beside it. */
function Live({ api, caller }: Pick<ViewProps, 'api' | 'caller'>) {
  const route = useRoute()
  const [live, setLive] = useState(NOTHING_LIVE)
  useEffect(() => {
    const stop = new AbortController()
    setLive(NOTHING_LIVE)
    void new LiveFeed(api, setLive).run(stop.signal)
    return () => stop.abort()
  }, [api])
  const title = [...route.names, route.page].join(' – ')
  useEffect(() => {
    document.title = `${title} – Quotaplane`
  }, [title])
  return (
    <>
      {route.page !== 'overview' && <Strip live={live} />}
      <View {...{ api, caller, route, live }} />
    </>
  )
}

function View(props: ViewProps) {
  const { page, names } = props.route
  const [domain, policy] = names
  switch (page) {
    case 'overview':
      return <Overview {...props} />
    case 'policies':
      return domain && policy ? (
        <PolicyPage key={`${domain}/${policy}`} {...props} domain={domain} policy={policy} />
      ) : (
        <Policies {...props} />
      )
    case 'keys':
      return <Keys {...props} />
    case 'explain':
      return <Explain key={props.route.query.toString()} {...props} />
    case 'changes':
      return <Changes {...props} />
    default:
      return (
        <p>
          There is no view of that name. <a href={linkTo('overview')}>Overview</a>
        </p>
      )
  }
}
