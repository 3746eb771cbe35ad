import type { AdminClient } from '../admin-client.ts'

/** Makes each region known to admin; one that is known already stays as it is. */
export async function registerRegions(
  client: AdminClient,
  regions: readonly string[],
): Promise<void> {
  for (const region of regions) {
    await client.call({
      method: 'PUT',
      path: `/v1/regions/${encodeURIComponent(region)}`,
      body: {},
      headers: { 'if-none-match': '*' },
      accepts: [409, 412],
    })
  }
}
