/**
 * The activity that asks a server for the answer to a call whose worker is lost (docs/adr/0039).
 *
 * It does not own the asking (`activities/mcp/legacy-2025/answer-stream.ts`).
 * 1. It cannot send a call: it holds no `ToolServer` (INV-G1, INV-X1).
 * 2. The sealed point that the lost worker left proves that the call passed the gate, and opens for this call alone.
 *    Before a token is minted, three things are checked again: who schedules this, what was signed, and that policy now
 *    does not deny the tool.
 * 3. The token has the grant and scopes of the call, and names no countersigned call (INV-S2): nothing can be run with
 *    it at a server that wants one named. A refused token (401) is replaced once, as for a call.
 * 4. The call was sent, so whatever goes wrong here, the end is `unknown` and says why.
 */
import { cancellationSignal, heartbeat } from '@temporalio/activity';
import { defined } from '../../../contracts/defined.ts';
import { CountersignError } from '../../../contracts/errors.ts';
import { codedFailureIn } from '../../../contracts/failure.ts';
import { READ_RESOURCE } from '../../../contracts/names.ts';
import type { DispatchInput, DispatchResult, ResumeInput } from '../../../contracts/wire/tools.ts';
import { currentScheduler, type Refused, unknownOutcome } from '../../kit/activity.ts';
import type { AnswerSource } from '../../mcp/legacy-2025/answer-stream.ts';
import type { ResumePoint } from '../../mcp/port.ts';
import { type Pulse, startPulse } from '../../mcp/pulse.ts';
import { verdictOn } from '../../policy/judge.ts';
import type { TokenRequest } from '../../tokens/port.ts';
import { accessTo, authorityOf, authorizationOf, connectionOf, shownOf } from '../../discovery/access.ts';
import { callRequest } from '../call-tool.ts';
import { checkFirst, checkReading, checkScheduler, foundTool } from '../dispatch-check.ts';
import { type CallToolParts, handingOn, resultOf, sealing, type Told } from '../send.ts';
import { openPoint, taskResult } from './seals.ts';
import { withToken } from '../../tokens/broker.ts';

/** Shortest time in ms to find an answer, however late it is by then. */
const LEAST_MS = 15_000;

export interface ResumeCallParts extends Omit<
  CallToolParts,
  'server' | 'limits' | 'liveTools' | 'readMessage' | 'heldRun' | 'readDiscarded'
> {
  readonly answers: AnswerSource;
}

export function createResumeCall(parts: ResumeCallParts): (input: ResumeInput) => Promise<DispatchResult> {
  return async (input) => {
    const told: Told = { last: { phase: 'sent', resume: input.resume } };
    // However long admission takes, the next worker must know where the answer comes.
    const { callId } = input;
    const pulse = startPulse({ heartbeat: (details) => heartbeat({ ...details, callId }) }, told.last);
    try {
      return await resumed(parts, input, told, pulse);
    } catch (error) {
      return notAsked(input, told, error);
    } finally {
      pulse.stop();
    }
  };
}

async function resumed(parts: ResumeCallParts, input: ResumeInput, told: Told, pulse: Pulse): Promise<DispatchResult> {
  const admitted = await admit(parts, input);
  const { point, authority: left, request, definition } = admitted;
  told.sentAt = point.sentAt;
  const shown = [...left.shown];
  const got = await withToken(parts.broker, request, {
    use: async (token, known) => {
      shown.push(...shownOf(token));
      return await parts.answers.resume(connectionOf(input.server, admitted.access, token, [...left.shown, ...known]), {
        point,
        resume: input.resume,
        ...(input.tasks === true && input.target.tool !== READ_RESOURCE ? { mayBeTask: true } : {}),
        definition,
        timeoutMs: timeLeft(point, input),
        resultBytes: input.limits.resultBytes,
        ...defined({ sharedBy: input.limits.sharedBy }),
        signal: cancellationSignal(),
        heartbeat: (details) => {
          told.last = details;
          pulse.say(details);
        },
        ...sealing(input, parts.seal, () => authorityOf(request, shown)),
        isHandedOn: handingOn(told),
      });
    },
    isRefused: (ending) => ending.kind === 'unknown' && ending.unauthorized === true,
  });
  if (got.kind === 'none') throw got.error;
  const { used: ending, token } = got;
  if (ending.kind === 'task')
    return await taskResult(ending, input, parts, authorityOf(request, shown), told.sentAt, token.evidence);
  // No server of this era asks in place of an answer.
  if (ending.kind === 'input') throw new CountersignError('INTERNAL', 'A resumed call cannot ask for input.');
  return resultOf(ending, token, told);
}

/** @throws CountersignError if the server is not asked */
async function admit(parts: ResumeCallParts, input: ResumeInput) {
  const { server } = input;
  const scheduler = currentScheduler();
  refuseIf(checkScheduler(input, scheduler));
  if (checkFirst(scheduler) !== undefined)
    throw new CountersignError('DISPATCH_FORBIDDEN', 'An answer is asked for once; this is a repetition.');
  const left = await openPoint(input, parts.seal);
  if (left === undefined)
    throw new CountersignError('DISPATCH_FORBIDDEN', 'What the lost worker left does not open for this call.');
  refuseIf(await parts.checkSignatures?.(input, scheduler));
  const said = (await parts.saidAuthorizations?.(input, scheduler)) ?? input.authorizations ?? [];
  const found = await foundTool(parts, input);
  if ('refused' in found) throw forbiddenBy(found.refused);
  const { now, catalog } = found;
  refuseIf(checkReading(input.target, parts.config));
  const verdict = await verdictOn(parts.config, parts.conditions, { ...input, now, catalog });
  // A halt or a denied tool keeps the worker from speaking to its server, even to learn what has happened.
  if (verdict.kind === 'deny') throw new CountersignError(verdict.code, verdict.message);
  const access = accessTo(parts.config, server, catalog);
  const { definition } = now.tool;
  // Consent is for a call that leaves; this one has left, so its consent is not checked again.
  const { grant, ...asked } = callRequest(input, said, catalog, undefined);
  const own = [grant, input.grant].filter((each) => each !== undefined);
  const authorization = authorizationOf(left.authority, own);
  if (authorization === undefined)
    throw new CountersignError('DISPATCH_FORBIDDEN', 'The grant with which the call was made is not there any more.');
  const request: TokenRequest = { ...asked, ...authorization, tool: definition.name };
  return { ...left, definition, access, request };
}

function refuseIf(refused: Refused | undefined): void {
  if (refused !== undefined) throw forbiddenBy(refused);
}

function forbiddenBy({ message }: Refused): CountersignError {
  return new CountersignError('DISPATCH_FORBIDDEN', message);
}

/**
 * Returns the rest of the call's own time, in ms. Time in which people were asked does not count. The clocks of two
 * workers differ, so the rest is never more than the whole.
 */
function timeLeft({ sentAt, heldMs = 0 }: ResumePoint, { limits }: DispatchInput): number {
  const all = limits.callTimeoutSeconds * 1_000;
  const left = all - (Date.now() - Date.parse(sentAt) - heldMs);
  return Math.min(Math.max(left, LEAST_MS), Math.max(all, LEAST_MS));
}

function notAsked({ target, resume }: ResumeInput, told: Told, error: unknown): DispatchResult {
  const why = codedFailureIn(error)?.message ?? 'a fault of this service';
  const message = `Tool "${target.tool}" of server "${target.server}" was sent and may or may not have run: the worker that had sent it was lost, and its server was not asked for the answer (${why}). Find out at the server before anything is done again.`;
  return { ...unknownOutcome(message), ...(handingOn(told)() ? { resume } : {}) };
}
