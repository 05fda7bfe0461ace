/** Reads the trusted keys when a sender asks for it: one reading at a time, and seldom. There is no timer for it. */
import type { TrustSet } from '../../contracts/schemas/trust.ts';
import type { RunActivities } from '../../contracts/wire/activities.ts';
import { provenActivities } from '../interceptors/zone.ts';
import { answered, assertFailure, type Reader } from './unread.ts';

/** Shortest time between two readings: anyone who may write to the namespace may ask for one. */
const MOST_OFTEN_MS = 30_000;

export class KeyReading {
  isUnderWay = false;
  /** Epoch ms. */
  #begunAt = 0;

  get mayBegin(): boolean {
    return !this.isUnderWay && Date.now() - this.#begunAt >= MOST_OFTEN_MS;
  }

  /** False if the keys could not be read: those known stay. @param believe takes them; undefined in mode `temporal` */
  async read(reader: Reader, tenant: string, believe: (trust: TrustSet | undefined) => void): Promise<boolean> {
    if (this.isUnderWay) return true;
    this.isUnderWay = true;
    this.#begunAt = Date.now();
    try {
      believe(answered(reader, 'readTrust?', await readActivities().readTrust(tenant)));
      return true;
    } catch (error) {
      // Any other error fails the workflow task, also if nobody awaits this promise.
      assertFailure(error);
      return false;
    } finally {
      this.isUnderWay = false;
    }
  }
}

/** Options for reading the trusted keys: nobody waits, and the sender of the next message may ask again. */
function readActivities() {
  return provenActivities<Pick<RunActivities, 'readTrust'>>({
    startToCloseTimeout: '15s',
    scheduleToCloseTimeout: '30s',
    retry: { initialInterval: '200ms', maximumInterval: '5s', maximumAttempts: 3 },
    summary: 'read the trusted keys',
  });
}
