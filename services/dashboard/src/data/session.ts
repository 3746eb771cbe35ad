const KEY = 'quotaplane-token'

/** The token lives as long as the tab: a shared computer forgets it. */
export function savedToken(): string | null {
  return sessionStorage.getItem(KEY)
}

export function saveToken(token: string): void {
  sessionStorage.setItem(KEY, token)
}

export function forgetToken(): void {
  sessionStorage.removeItem(KEY)
}
