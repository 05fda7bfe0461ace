/**
 * One list of tools within the limits of its server, where no call holds a place there.
 *
 * 1. Held back comes before the token, and takes no slot of the worker: Temporal repeats the activity when its turn may have come.
 * 2. `heldSeconds` says for how long it may go on so: whoever asked counts the time, not the attempts.
 */
import { CountersignError } from '../../contracts/errors.ts';
import type { Health } from '../../domain/breaker.ts';
import { toldBy } from './listing-failure.ts';
import { currentScheduler } from './scheduler.ts';
import type { Asked, ServerLimits } from './server-limits.ts';

export interface ListingPlace {
  readonly name: string;
  /** Canonical server URL. */
  readonly url: string;
  readonly tenant: string;
}

/** @throws CountersignError `TOOL_RATE_LIMITED`, `TOOL_UNAVAILABLE` where it is held back */
export async function withinListLimits<Listed>(
  limits: ServerLimits,
  { name, url, tenant }: ListingPlace,
  list: () => Promise<Listed>,
): Promise<Listed> {
  const { workflowId = '', attempt } = currentScheduler();
  const place = limits.enter({ url, tenant, key: `${workflowId}/tools/list/${name}`, attempt });
  if (place.kind === 'held') {
    const { code, message, retryAfterMs, atMostSeconds } = place;
    const facts = { server: name, retryAfterMs, heldSeconds: atMostSeconds };
    throw new CountersignError(code, `${message} Its tools are listed later.`, facts);
  }
  let told: { readonly health: Health; readonly asked?: Asked | undefined } = { health: 'neutral' };
  try {
    const listed = await list();
    told = { health: 'up' };
    return listed;
  } catch (error) {
    told = toldBy(error);
    throw error;
  } finally {
    place.leave(told.health, told.asked);
  }
}
