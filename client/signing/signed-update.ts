/**
 * Sends updates to runs in trust mode `signed`, and sends one again while the run has yet to read the key.
 *
 * 1. A refused update has changed nothing, so it may be signed and sent anew under the same id (INV-G2).
 */
import { setTimeout as pause } from 'node:timers/promises';
import { CountersignError } from '../../contracts/errors.ts';
import type { RunState } from '../../contracts/schemas/run-state.ts';
import { signed, type Signer, type ToSign } from './signing.ts';

export interface SignedRun {
  readonly namespace: string;
  readonly workflowId: string;
  state(): Promise<Pick<RunState, 'runId' | 'signing'>>;
  /** Asks the run to read its keys anew. */
  refreshTrust(): Promise<unknown>;
}

/** Pauses between sendings, in which the run reads its keys. */
const PAUSES_MS = [50, 100, 200, 400, 800, 1_600];

export type Said = Omit<ToSign, 'namespace' | 'tenant' | 'workflowId'>;

/**
 * @param about its `runId` is the Temporal run that the message names; without it the message is signed for the living
 *   run
 */
export async function sendSigned<T, M extends object>(
  run: SignedRun,
  signer: Signer,
  message: M,
  about: Said,
  send: (message: M) => Promise<T>,
): Promise<T> {
  let unknown: CountersignError | undefined;
  for (const ms of PAUSES_MS) {
    const { runId, signing } = await run.state();
    try {
      if (signing === undefined) return await send(message);
      const { namespace, workflowId } = run;
      return await send(
        await signed(signer, message, { runId, ...about, namespace, workflowId, tenant: signing.tenant }),
      );
    } catch (error) {
      if (!(error instanceof CountersignError) || error.code !== 'TRUST_KEY_UNKNOWN') throw error;
      unknown = error;
    }
    await run.refreshTrust().catch((error: unknown) => {
      // Another sender has asked just now, so the keys are being read.
      if (!(error instanceof CountersignError) || error.code !== 'TRUST_REFRESH_TOO_SOON') throw error;
    });
    await pause(ms);
  }
  throw unknown ?? new CountersignError('INTERNAL', 'nothing was sent');
}
