/**
 * The dispatch activity: the only way in which a `tools/call` leaves a worker (INV-G1).
 *
 * It owns the order check → token → call → outcome. It does not own the checks (`dispatch-check.ts`, `statement.ts`),
 * tokens or the protocol.
 * 1. There is one attempt, and every ending is a value. An error is thrown only after the call was handed over: then it
 *    may have run (INV-X1).
 * 2. A token is minted after the checks, for this call, and dropped with the call (INV-S2).
 * 3. A call that may run only once is not sent if it was sent in history that a reset has discarded (docs/adr/0045).
 * 4. Limits of a server apply before anything is asked of the server or its token issuer, including the list before the
 *    call.
 */
import { ApplicationFailure, cancellationSignal, heartbeat, log } from '@temporalio/activity';
import { READ_RESOURCE, STRETCHING } from '../../contracts/names.ts';
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { InputRequests } from '../../contracts/schemas/input.ts';
import type { DispatchInput, DispatchResult } from '../../contracts/wire/tools.ts';
import type { ToolNow } from '../catalog/reader.ts';
import { type CurrentTool, tokenRequest, wanting } from '../discovery/access.ts';
import { currentScheduler, type Scheduler } from '../kit/activity.ts';
import { withinLimits } from '../limits/server-limits.ts';
import type { CallEnding, ToolServer } from '../mcp/port.ts';
import { ArgumentChecker, isRepeatable, tellBrokenGlass } from '../policy/judge.ts';
import type { TokenRequest } from '../tokens/port.ts';
import {
  checkFirst,
  checkLink,
  checkResent,
  checkScheduler,
  lostInReset,
  foundTool,
  weigh,
  type Weighed,
} from './dispatch-check.ts';
import { type CallToolParts, callWithToken, endedBeforeSending, rememberingCalls, type Underway } from './send.ts';
import { peopleOf } from './legacy-2025/open-answer.ts';
import { noTask, taskWish } from './legacy-2025/seals.ts';
import { checkProvided, type Leaving, provenAuthorization, provenCall } from './statement.ts';
import { pulsing } from '../mcp/pulse.ts';
import type { AuthorizationProof } from '../../contracts/wire/proofs.ts';

export function createCallTool(parts: CallToolParts): (input: DispatchInput) => Promise<DispatchResult> {
  const checker = new ArgumentChecker();
  const take = rememberingCalls();
  return pulsing(heartbeat, async (input: DispatchInput, pulse): Promise<DispatchResult> => {
    const { server, isHanded } = watched(parts.server, take, input);
    try {
      return await dispatched({ ...parts, server, pulse, began: Date.now() }, checker, input);
    } catch (error) {
      // A call that was handed over may have left, whatever failed here.
      if (isHanded()) throw error;
      return endedBeforeSending(error);
    }
  });
}

/** One that this worker has sent by the same consent is not sent. */
function watched(
  server: ToolServer,
  take: (input: DispatchInput) => boolean,
  input: DispatchInput,
): { readonly server: ToolServer; readonly isHanded: () => boolean } {
  let handed = false;
  return {
    server: {
      list: async (...asked) => await server.list(...asked),
      call: async (...call) => {
        // A second attempt with a fresh token after a 401 is the same call.
        if (!handed && !take(input)) return sentBefore(input);
        handed = true;
        return await server.call(...call);
      },
    },
    isHanded: () => handed,
  };
}

/** The ending of a call that has left already, or is leaving, for another caller: nobody can say that nothing ran. */
function sentBefore({ run, callId, attempt, server, target }: DispatchInput): CallEnding {
  const facts = { workflowId: run.workflowId, callId, attempt, server: server.name, tool: target.tool };
  log.warn('A call was scheduled a second time by the same consent, and not sent again.', facts);
  return {
    kind: 'unknown',
    code: 'OUTCOME_UNKNOWN',
    message: `This worker has handed over attempt ${attempt} of this call before, by the same consent; it was not sent again. Somebody has scheduled it a second time.`,
  };
}

async function dispatched(parts: Underway, checker: ArgumentChecker, input: DispatchInput): Promise<DispatchResult> {
  const scheduler = currentScheduler();
  const unscheduled = checkScheduler(input, scheduler);
  if (unscheduled !== undefined) return unscheduled;
  const { run, server } = input;
  const isInStretch = STRETCHING.includes(scheduler.activity);
  // Temporal tries a stretch again: its calls are repeatable, and its record says which have left.
  const handedOut = isInStretch ? undefined : checkFirst(scheduler);
  if (handedOut !== undefined) {
    const facts = { workflowId: run.workflowId, callId: input.callId, server: server.name, tool: input.target.tool };
    log.warn('A call was handed out anew from outside, and not sent.', facts);
    return handedOut;
  }
  const unsigned = await parts.checkSignatures?.(input, scheduler);
  if (unsigned !== undefined) return unsigned;
  const said = (await parts.saidAuthorizations?.(input, scheduler)) ?? input.authorizations ?? [];
  const found = await foundTool(parts, input);
  if ('refused' in found) return found.refused;
  const { now, catalog } = found;
  const mayRepeat = isRepeatable(parts.config, now, catalog);
  if (isInStretch && !mayRepeat) return notRepeatable(input);
  const weighed = await weigh(parts, checker, input, now, catalog);
  // A changed definition is checked against the server's own list. A call refused for another reason needs no question
  // to the server.
  if (weighed.refused !== undefined && weighed.refused.code !== 'DEFINITION_CHANGED') return weighed.refused;
  // The run's own claim about the link is not believed, and a link that cannot be looked up is not sent.
  const unlinked = input.target.tool === READ_RESOURCE ? await checkLink(input, parts) : undefined;
  if (unlinked !== undefined) return unlinked;
  const unasked = checkResent(input, mayRepeat);
  if (unasked !== undefined) return unasked;
  const lost = await lostInReset(input, scheduler, mayRepeat, parts.readDiscarded);
  if (lost !== undefined) return lost;
  const meeting = { scheduler, now, catalog, weighed, said, mayRepeat };
  // The list before the call counts against the same limits as the call.
  return await withinLimits(parts.limits, parts.server, input, (limited) =>
    callAsListed({ ...parts, server: limited }, checker, input, meeting),
  );
}

/** The run sends such a call by an activity that has one attempt (INV-X1). */
function notRepeatable({ server, target }: DispatchInput): DispatchResult {
  const message = `Tool "${target.tool}" of server "${server.name}" is not called repeatable by this worker, so it does not leave within a stretch.`;
  return { kind: 'not-sent', code: 'TOOL_UNAVAILABLE', message };
}

interface Meeting {
  readonly scheduler: Scheduler;
  readonly now: ToolNow;
  readonly catalog: CatalogSnapshot | undefined;
  readonly weighed: Weighed;
  readonly said: readonly AuthorizationProof[];
  readonly mayRepeat: boolean;
}

async function callAsListed(
  parts: Underway,
  checker: ArgumentChecker,
  input: DispatchInput,
  { scheduler, now, catalog, weighed: before, said, mayRepeat }: Meeting,
): Promise<DispatchResult> {
  const { run, server, target } = input;
  const request = callRequest(input, said, catalog, before.leaving);
  let current: CurrentTool;
  try {
    // The list uses the grant of the call, because another grant may see other tools.
    const principal = { run, server, grant: request.grant };
    const shown = target.definitionHash;
    current = await parts.liveTools.current(principal, now.tool, shown, catalog, cancellationSignal(), parts.server);
  } catch (error) {
    return wanting(parts.config, request, endedBeforeSending(error), before.leaving);
  }
  const { tool } = current;
  const weighed =
    tool === now.tool ? before : await weigh(parts, checker, input, { tool, pinned: now.pinned }, catalog);
  const { taskSupport } = tool.definition;
  const wish = taskSupport === undefined ? {} : taskWish(input, tool.definition, parts.config, parts.seal);
  // Nobody is asked about a changed tool that this run cannot call after the change.
  if (wish.refused !== undefined && (weighed.refused?.code ?? 'DEFINITION_CHANGED') === 'DEFINITION_CHANGED')
    return noTask(input, wish.refused);
  if (weighed.refused !== undefined) return weighed.refused;
  const { verdict, leaving } = weighed;
  const unanswered = checkProvided(input, leaving, (requests) => areAsked(parts, requests, input));
  if (unanswered !== undefined) return unanswered;
  // A call that people have approved needs no break-glass alert.
  if (verdict.kind === 'allow' && input.proof.kind === 'policy')
    tellBrokenGlass((message, meta) => void log.warn(message, meta), verdict, run, input, 'sent');
  const proven = provenCall(input, tool, verdict);
  const asked = callRequest(input, said, catalog, leaving);
  const called: TokenRequest = { ...asked, tool: tool.definition.name, call: proven };
  // A task's questions come by another way.
  const mayHold = wish.task === undefined && input.hold !== undefined;
  const people = mayHold ? peopleOf(input, parts, { scheduler, now: { tool, pinned: now.pinned } }) : undefined;
  const meant = { ...current, request: called, repeatable: mayRepeat, task: wish.task, leaving, people };
  return await callWithToken(parts, input, meant, catalog);
}

/** Mode `temporal` believes anyone who writes to the namespace. */
function areAsked({ config, macs }: CallToolParts, requests: InputRequests, input: DispatchInput): boolean {
  return config.trust.mode === 'temporal' || macs?.areOurs(requests, input) === true;
}

/** Without tool and proof: it is not known yet which tool the call meets. */
export function callRequest(
  input: DispatchInput,
  said: readonly AuthorizationProof[],
  catalog: CatalogSnapshot | undefined,
  leaving: Leaving | undefined,
): TokenRequest {
  const { grant = input.grant, consented } = provenAuthorization(input, said, leaving);
  const request = tokenRequest({ ...input, grant }, catalog, cancellationSignal());
  return consented.length === 0 ? request : { ...request, consented };
}

/**
 * Makes an activity fail if it does not know what became of its call, so that Temporal UI does not show it as done. The
 * run reads the failure's detail as it reads a result. The message, which Temporal does not encrypt, has the id alone.
 */
export function failingWhereLost<Input extends { readonly callId: string }>(
  call: (input: Input) => Promise<DispatchResult>,
): (input: Input) => Promise<DispatchResult> {
  return async (input) => {
    const result = await call(input);
    if (result.kind !== 'ended' || result.outcome.kind !== 'unknown') return result;
    const message = `What became of call ${input.callId} is not known; it may have run.`;
    throw ApplicationFailure.nonRetryable(message, 'OUTCOME_UNKNOWN', result);
  };
}
