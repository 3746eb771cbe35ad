const PLAIN = /^[\x20-\x7e]*$/

/** Tells admin why, for the audit log; beyond ASCII as RFC 8187 writes it. */
export function reasonHeader(reason: string): Readonly<Record<string, string>> {
  const isPlain = PLAIN.test(reason) && !/^utf-8''/i.test(reason)
  const text = isPlain ? reason : `UTF-8''${encodeURIComponent(reason)}`
  return { 'x-change-reason': text }
}
