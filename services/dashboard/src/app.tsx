import { useCallback, useMemo, useState } from 'preact/hooks'
import { type Api, createApi } from './data/api.ts'
import { linkTo, type Route, useRoute } from './data/route.ts'
import { forgetToken, savedToken, saveToken } from './data/session.ts'
import { Changes } from './pages/changes.tsx'
import { Keys } from './pages/keys.tsx'
import { Overview } from './pages/overview.tsx'
import { Policies } from './pages/policies.tsx'
import { PolicyPage } from './pages/policy.tsx'
import { SignIn } from './pages/sign-in.tsx'

const TABS = [
  ['overview', 'Overview'],
  ['policies', 'Policies'],
  ['keys', 'Keys'],
  ['changes', 'Changes'],
] as const

/** The page: who is signed in, and which view the address names. */
export function App() {
  const [token, setToken] = useState(savedToken)
  const [notice, setNotice] = useState<string | null>(null)
  const route = useRoute()
  const leave = useCallback((why: string | null): void => {
    forgetToken()
    setNotice(why)
    setToken(null)
  }, [])
  const api = useMemo(
    () =>
      token === null ? null : createApi(token, () => leave('That token is not taken any more.')),
    [token, leave],
  )
  if (api === null) {
    const enter = (given: string): void => {
      saveToken(given)
      setNotice(null)
      setToken(given)
    }
    return <SignIn notice={notice} onToken={enter} />
  }
  return (
    <>
      <a class="skip" href="#main">
        Skip to the view
      </a>
      <header class="top">
        <a class="brand" href={linkTo('overview')}>
          Quotaplane
        </a>
        <nav aria-label="Views">
          {TABS.map(([page, name]) => (
            <a
              key={page}
              href={linkTo(page)}
              aria-current={page === route.page ? 'page' : undefined}
            >
              {name}
            </a>
          ))}
        </nav>
        <button type="button" class="quiet" onClick={() => leave(null)}>
          Sign out
        </button>
      </header>
      <main id="main" tabIndex={-1}>
        <View route={route} api={api} />
      </main>
    </>
  )
}

/** What every view is given. */
export interface ViewProps {
  readonly api: Api
  readonly route: Route
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
