import type { AdminClient } from '../admin-client.ts'

/** Makes each region known to admin; one that is known already stays as it is. Resolves with those that were not. */
export async function registerRegions(
  client: AdminClient,
  regions: readonly string[],
): Promise<string[]> {
  const added: string[] = []
  for (const region of regions) {
    const { status } = await client.call({
      method: 'PUT',
      path: `/v1/regions/${encodeURIComponent(region)}`,
      body: {},
      headers: { 'if-none-match': '*' },
      accepts: [409, 412],
    })
    if (status < 400) added.push(region)
  }
  return added
}
