import { linkTo } from '../data/route.ts'

/** A key that leads to its split and its usage. */
export function KeyLink(props: {
  readonly of: {
    readonly domain: string
    readonly policy: string
    readonly limit: string
    readonly key: string
  }
}) {
  const { domain, policy, limit, key } = props.of
  return <a href={linkTo('policies', [domain, policy], { limit, key })}>{key}</a>
}
