/** A unified diff; each line begins with its sign, so that colour only repeats it. */
export function Diff({ text }: { readonly text: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <pre class="difference" tabIndex={0}>
      {text
        .trimEnd()
        .split('\n')
        .filter((line) => !line.startsWith('---') && !line.startsWith('+++'))
        .map((line, i) => (
          <span
            key={i}
            class={line.startsWith('+') ? 'added' : line.startsWith('-') ? 'removed' : undefined}
          >
            {`${line}\n`}
          </span>
        ))}
    </pre>
  )
}
