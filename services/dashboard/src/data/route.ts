import { useEffect, useState } from 'preact/hooks'

/** Where the page is: everything that a link needs to show the same view again. */
export interface Route {
  readonly page: string
  /** What follows the page's name, decoded. */
  readonly names: readonly string[]
  readonly query: URLSearchParams
}

export function parseRoute(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2)
  const [page = '', ...names] = path.split('/').map(decode)
  return { page: page === '' ? 'overview' : page, names, query: new URLSearchParams(query) }
}

export function linkTo(
  page: string,
  names: readonly string[] = [],
  query: Readonly<Record<string, string | null>> = {},
): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] =>
    Boolean(entry[1]),
  )
  const search = given.length === 0 ? '' : `?${new URLSearchParams(given)}`
  return `#/${[page, ...names].map(encodeURIComponent).join('/')}${search}`
}

export function useRoute(): Route {
  const [hash, setHash] = useState(location.hash)
  useEffect(() => {
    const follow = (): void => setHash(location.hash)
    addEventListener('hashchange', follow)
    // It may have changed since this was first shown, when nobody listened yet.
    follow()
    return () => removeEventListener('hashchange', follow)
  }, [])
  return parseRoute(hash)
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
