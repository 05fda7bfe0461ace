/**
 * Joins the event that a request was opened with what it is about. The ledger has neither names nor arguments of it:
 * the run holds them already, and history holds them once.
 *
 * 1. Arguments that policy redacts never stand here in clear (INV-S1); their hash covers all of them.
 * 2. Whoever may not see a request learns nothing of what it is about.
 * 3. What is said of a request is bounded, whatever the model and the server wrote.
 * 4. The run is asked once for all entries that were read together, and only if one of them opened a request.
 */
import { defined } from '../../contracts/defined.ts';
import type { OpenedRequest, RunEvent } from '../../contracts/schemas/http/opened-request.ts';
import type { LedgerEntry, LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { shownArguments } from '../../domain/policy/redaction.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import { argumentsLine } from '../../domain/text/shown-json.ts';
import { type Onlooker, type SeenRun, seesRequest } from '../../domain/request/onlooker.ts';

export type OpenedFact = Extract<LedgerFact, { kind: 'request.opened' }>;
export type VerdictFact = Extract<LedgerFact, { kind: 'verdict' }>;

/**
 * Returns what the request is about; undefined if neither the requests nor the verdict tell.
 * @param requests of the run's current turn
 * @param verdict the last one on the call before the request
 */
export function openedRequest(
  { callId, generation }: Pick<OpenedFact, 'callId' | 'generation'>,
  requests: readonly ApprovalRequest[],
  verdict?: VerdictFact,
): OpenedRequest | undefined {
  const request = requests.find((each) => each.callId === callId && each.generation === generation);
  if (request === undefined) return generation === 1 ? judged(verdict) : undefined;
  const { server, tool, definitionHash, description, annotations } = request;
  return {
    server,
    tool,
    definitionHash,
    argumentsHash: hashOf(request.arguments),
    arguments: argumentsLine(shownArguments(request)),
    ...defined({ description, annotations }),
  };
}

/** The call of a later generation may have other arguments and another definition than were judged. */
function judged(verdict: VerdictFact | undefined): OpenedRequest | undefined {
  if (verdict?.server === undefined || verdict.definitionHash === undefined) return undefined;
  const { server, tool, definitionHash, argumentsHash } = verdict;
  return { server, tool, definitionHash, argumentsHash };
}

/** Returns the event as the person may see it. */
export function eventFor(event: RunEvent, run: SeenRun, person: Onlooker): RunEvent {
  const { request, ...entry } = event;
  const { fact } = entry;
  return request === undefined || (fact.kind === 'request.opened' && seesRequest(run, fact, person)) ? event : entry;
}

/**
 * Joins the entries of one ledger, by what the run answers and by the verdict before each.
 * @param read the requests of the run's current turn
 */
export function openedRequests(read: () => Promise<readonly ApprovalRequest[]>) {
  /** The last verdict on each call of the turn. */
  const verdicts = new Map<string, VerdictFact>();
  let requests: readonly ApprovalRequest[] | undefined;
  return {
    /** Entries that are read from now on may open requests that the run had not when it was asked. */
    forget: () => void (requests = undefined),
    /** Takes entries in their order. */
    joined: async (entry: LedgerEntry): Promise<RunEvent> => {
      const { fact } = entry;
      if (fact.kind === 'turn.proposed') verdicts.clear();
      if (fact.kind === 'verdict') verdicts.set(fact.callId, fact);
      if (fact.kind !== 'request.opened') return entry;
      requests ??= await read();
      const request = openedRequest(fact, requests, verdicts.get(fact.callId));
      return request === undefined ? entry : { ...entry, request };
    },
  };
}
