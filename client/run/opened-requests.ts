/**
 * Tells of each event `request.opened` what it is about, by what the run answers and by the verdict before it.
 *
 * 1. The run is asked once for all entries that were read together, and only if one of them opened a request.
 */
import type { LedgerEntry } from '../../contracts/schemas/ledger.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import type { RunEvent } from '../../contracts/schemas/http/opened-request.ts';
import { openedRequest, type VerdictFact } from './opened-request.ts';

export class OpenedRequests {
  readonly #read: () => Promise<readonly ApprovalRequest[]>;
  /** The last verdict on each call of the turn. */
  readonly #verdicts = new Map<string, VerdictFact>();
  #requests: readonly ApprovalRequest[] | undefined;

  /** @param read the requests of the run's current turn */
  constructor(read: () => Promise<readonly ApprovalRequest[]>) {
    this.#read = read;
  }

  /** Entries that are read from now on may open requests that the run had not when it was asked. */
  forget(): void {
    this.#requests = undefined;
  }

  /** Takes entries in their order. */
  async joined(entry: LedgerEntry): Promise<RunEvent> {
    const { fact } = entry;
    if (fact.kind === 'turn.proposed') this.#verdicts.clear();
    if (fact.kind === 'verdict') this.#verdicts.set(fact.callId, fact);
    if (fact.kind !== 'request.opened') return entry;
    this.#requests ??= await this.#read();
    const request = openedRequest(fact, this.#requests, this.#verdicts.get(fact.callId));
    return request === undefined ? entry : { ...entry, request };
  }
}
