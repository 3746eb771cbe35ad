import type { ComponentChildren } from 'preact'

/** A state in words with a sign, so that nothing is said by colour alone. */
export type Tone = 'good' | 'warn' | 'bad' | 'idle'

const SIGNS: Readonly<Record<Tone, string>> = { good: '✓', warn: '!', bad: '✕', idle: '–' }

export function Status(props: { readonly tone: Tone; readonly children: string }) {
  return (
    <span class={`status ${props.tone}`}>
      <span aria-hidden="true">{SIGNS[props.tone]}</span> {props.children}
    </span>
  )
}

/** One figure that must be looked at first. */
export function Meter(props: {
  readonly label: string
  readonly value: string
  readonly tone: Tone
  readonly note: ComponentChildren
}) {
  return (
    <div class={`meter ${props.tone}`}>
      <dt>{props.label}</dt>
      <dd>
        <strong>{props.value}</strong>
        <span class="hint">{props.note}</span>
      </dd>
    </div>
  )
}
