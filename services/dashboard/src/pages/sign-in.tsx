import { useState } from 'preact/hooks'
import { ApiError, createApi } from '../data/api.ts'
import { tokenCommand } from '../data/caller.ts'

/** Asks for a token of the admin API, and tries it before it is taken. */
export function SignIn(props: {
  readonly notice: string | null
  readonly onToken: (token: string) => void
}) {
  const [problem, setProblem] = useState(props.notice)
  const [isBusy, setBusy] = useState(false)
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault()
    const form = new FormData(event.currentTarget as HTMLFormElement)
    const token = String(form.get('token') ?? '').trim()
    setBusy(true)
    try {
      await createApi({ token, domain: null, onSignedOut() {} }).get('/v1/whoami')
      props.onToken(token)
    } catch (err) {
      setProblem(err instanceof ApiError ? err.message : 'Admin cannot be reached; try again.')
      setBusy(false)
    }
  }
  return (
    <main class="sign-in">
      <h1>Quotaplane</h1>
      <form onSubmit={submit}>
        <label for="token">Token of the admin API</label>
        <input
          id="token"
          name="token"
          type="password"
          autocomplete="current-password"
          required
          aria-describedby="token-help"
          aria-invalid={problem !== null}
        />
        <p id="token-help" class="hint">
          <code>quotaplane up</code> prints one. For a colleague:{' '}
          <code>{tokenCommand('quota:read')}</code>
        </p>
        {problem !== null && (
          <p class="problem" role="alert">
            {problem}
          </p>
        )}
        <button type="submit" disabled={isBusy}>
          Sign in
        </button>
      </form>
    </main>
  )
}
