import { useEffect, useRef } from 'preact/hooks'

/** While somebody types, the address follows only when they stop. */
const TYPING_MS = 250

/** A search that stands in the address, so that a link shows the same. */
export function Search(props: {
  readonly value: string
  readonly linkFor: (text: string) => string
}) {
  const timer = useRef(0)
  // Where the page is when the typing ends, which may be elsewhere than when it began.
  const linkFor = useRef(props.linkFor)
  linkFor.current = props.linkFor
  useEffect(() => () => clearTimeout(timer.current), [])
  const input = (text: string): void => {
    clearTimeout(timer.current)
    timer.current = window.setTimeout(
      () => location.replace(linkFor.current(text.trim())),
      TYPING_MS,
    )
  }
  return (
    <label class="search">
      Search
      <input
        type="search"
        defaultValue={props.value}
        onInput={(event) => input(event.currentTarget.value)}
      />
    </label>
  )
}
