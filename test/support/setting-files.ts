import { nkeys } from 'nats'

const SEED = new TextDecoder().decode(nkeys.createUser().getSeed())

/** What the file of a secret setting may hold, such as a service starts with. */
export function contentOf(setting: string): string {
  return setting === 'NATS_NKEY_SEED' ? SEED : 'the content of a file'
}
