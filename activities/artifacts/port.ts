/**
 * An artifact store keeps bytes that are too large, or of the wrong kind, for history. It is addressed by content, so a
 * repeated put is harmless.
 *
 * 1. `put` returns only when the bytes are durable.
 * 2. `get` returns exactly the bytes that were put, or throws `ARTIFACT_MISSING` / `ARTIFACT_CORRUPT`.
 */
import { createHash } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { CountersignError } from '../../contracts/errors.ts';
import { type ArtifactRef, Sha256Hex } from '../../contracts/schemas/json.ts';

export interface ArtifactStore {
  put(bytes: Uint8Array, contentType: string): Promise<ArtifactRef>;
  get(ref: ArtifactRef): Promise<Uint8Array>;
}

/** A reference may come from outside: the place of an artifact is made of nothing but a hash. */
export function assertHash({ sha256 }: ArtifactRef): void {
  if (!Sha256Hex.safeParse(sha256).success)
    throw new CountersignError('ARTIFACT_MISSING', 'The reference holds no sha256.');
}

export function sha256Of(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

export function corrupt(sha256: string): CountersignError {
  const message = `Artifact ${sha256} is not what was stored; restore it from a backup.`;
  return new CountersignError('ARTIFACT_CORRUPT', message);
}

/**
 * Limit of an activity's wait for a store: the outcome of a call must be reported while the workflow still waits for it
 * (`callActivities` in `workflows/run/activities.ts` leaves 90 s). Bytes that were not taken by then are lost.
 */
export const STORING_MS = 45_000;

/** Pauses between tries of one put, as parts of the limit: 1, 2 and 4 s. */
const PAUSES = [1 / 45, 2 / 45, 4 / 45];

/**
 * Gives a store that restarts or sheds load some seconds: a call that has run is not made again for its bytes.
 * @param ms limit for all puts together, from now on
 * @param signal aborted when nobody waits any more: what was refused by then is not tried again
 */
export function inTime(store: ArtifactStore, ms: number, signal: AbortSignal): ArtifactStore {
  let isLate = false;
  const late = setTimeout(ms, undefined, { ref: false }).then(() => {
    isLate = true;
    throw new Error('the store did not answer in time');
  });
  // Nobody may be waiting by then.
  late.catch(() => undefined);
  let pauses = PAUSES;
  const patiently = async (put: () => Promise<ArtifactRef>): Promise<ArtifactRef> => {
    for (const pause of pauses) {
      try {
        return await put();
      } catch (error) {
        if (isLate || signal.aborted) throw error;
        await setTimeout(pause * ms, undefined, { ref: false, signal });
      }
    }
    try {
      return await put();
    } catch (error) {
      // One that has refused all tries gets no others for what else the result holds.
      pauses = [];
      throw error;
    }
  };
  return {
    get: async (ref) => await store.get(ref),
    put: async (bytes, contentType) => {
      const once = async (): Promise<ArtifactRef> => await (isLate ? late : store.put(bytes, contentType));
      return await Promise.race([late, patiently(once)]);
    },
  };
}
