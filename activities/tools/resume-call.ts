/**
 * The activity that asks a server for the answer to a call whose worker is lost (docs/adr/0039).
 *
 * Owns what must still hold before anything is asked. Does not own the asking (`answer-stream.ts`).
 *
 * 1. It cannot send a call: it holds no `ToolServer` (INV-G1, INV-X1).
 * 2. That the call passed the gate is proven by what its worker left, which opens for this call alone. Asked again is what makes a
 *    token: who schedules this, what was signed, and that policy, as it is now, does not deny the tool.
 * 3. The token is of the grant and the scopes of the call, and says of none that it was countersigned (INV-S2): at a server that wants
 *    to be told, nothing can be run with it. One that is refused (401) is replaced once, as for a call.
 * 4. Whatever goes wrong, the call was sent: the end is `unknown`, and says why.
 */
import { cancellationSignal, heartbeat } from '@temporalio/activity';
import type { DispatchInput, DispatchResult, ResumeInput } from '../../contracts/dispatch.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import { READ_RESOURCE } from '../../contracts/names.ts';
import type { ToolDefinition } from '../../contracts/schemas/tool.ts';
import { currentTool } from '../catalog/layer.ts';
import { verdictOn } from '../policy/judge.ts';
import type { TokenRequest } from '../tokens/port.ts';
import { authorityOf, authorizationOf, shownOf } from './call-authority.ts';
import { type CallToolParts, tokenRequest } from './call-tool.ts';
import { checkCatalog, checkFirst, checkScheduler, checkTool, type Refused } from './dispatch-check.ts';
import { handingOn, resultOf, type Told } from './dispatch-result.ts';
import { checkReading } from './link-check.ts';
import type { AnswerSource, ResumePoint } from './port.ts';
import { type Pulse, startPulse } from './pulse.ts';
import { type LeftBehind, openPoint, sealFor } from './resume-point.ts';
import { currentScheduler } from './scheduler.ts';
import { accessTo, connectionOf, type ServerAccess } from './server-access.ts';
import { taskResult } from './task-seal.ts';
import { withToken } from './with-token.ts';

/** What a server gets in any case to find an answer, however late it is by then. */
const LEAST_MS = 15_000;

export interface ResumeCallParts extends Omit<CallToolParts, 'server' | 'limits' | 'liveTools'> {
  readonly server: AnswerSource;
}

interface Admitted extends LeftBehind {
  readonly definition: ToolDefinition;
  readonly access: ServerAccess;
  readonly request: TokenRequest;
}

export function createResumeCall(parts: ResumeCallParts): (input: ResumeInput) => Promise<DispatchResult> {
  return async (input) => {
    const told: Told = { last: { phase: 'sent', resume: input.resume } };
    // First of all, and however long admission takes: whoever asks after this worker must know where.
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
      return await parts.server.resume(connectionOf(input.server, admitted.access, token, [...left.shown, ...known]), {
        point,
        resume: input.resume,
        ...(input.tasks === true && input.target.tool !== READ_RESOURCE ? { mayBeTask: true } : {}),
        definition,
        timeoutMs: timeLeft(point, input),
        resultBytes: input.limits.resultBytes,
        ...(input.limits.sharedBy === undefined ? {} : { sharedBy: input.limits.sharedBy }),
        signal: cancellationSignal(),
        heartbeat: (details) => {
          told.last = details;
          pulse.say(details);
        },
        ...sealFor(input, parts.seal, () => authorityOf(request, shown)),
        isHandedOn: handingOn(told),
      });
    },
    isRefused: (ending) => ending.kind === 'unknown' && ending.unauthorized === true,
  });
  if (got.kind === 'none') throw got.error;
  const { used: ending, token } = got;
  if (ending.kind === 'task')
    return await taskResult(ending, input, parts, authorityOf(request, shown), told, token.evidence);
  // No server of this era asks in place of an answer.
  if (ending.kind === 'input') throw new CountersignError('INTERNAL', 'A resumed call cannot ask for input.');
  return resultOf(ending, token, told);
}

/** @throws CountersignError where the server is not asked */
async function admit(parts: ResumeCallParts, input: ResumeInput): Promise<Admitted> {
  const { run, server } = input;
  const scheduler = currentScheduler();
  refuseIf(checkScheduler(input, scheduler));
  if (checkFirst(scheduler) !== undefined)
    throw new CountersignError('DISPATCH_FORBIDDEN', 'An answer is asked for once; this is a repetition.');
  const left = await openPoint(input, parts.seal);
  if (left === undefined)
    throw new CountersignError('DISPATCH_FORBIDDEN', 'What the lost worker left does not open for this call.');
  refuseIf(await parts.checkSignatures?.(input, scheduler));
  const said = (await parts.saidAuthorizations?.(input, scheduler)) ?? input.authorizations ?? [];
  const pinned = (await parts.loadToolset(input.toolset)).find(({ modelName }) => modelName === input.name);
  const catalog = await parts.readCatalog({ tenant: run.initiator.tenant, server: server.name });
  const now = pinned && (await currentTool(parts.loadToolset, catalog, pinned));
  refuseIf(checkTool(input, now?.tool) ?? checkCatalog(server, catalog) ?? checkReading(input.target, parts.config));
  if (now === undefined) throw new CountersignError('TOOL_UNKNOWN', 'The tool is not known.');
  const { runPolicy, callId, earlier } = input;
  const call = { run, runPolicy, now, catalog, callId, arguments: input.arguments, earlier };
  const verdict = await verdictOn(parts.config, parts.conditions, call);
  // A halt, a tool that is denied by now: its server is not spoken to, not even to learn what has happened.
  if (verdict.kind === 'deny') throw new CountersignError(verdict.code, verdict.message);
  const access = accessTo(parts.config, server, catalog);
  const { definition } = now.tool;
  // Consent is to a call that leaves; this one has left, and is not weighed again.
  const { grant, ...asked } = tokenRequest(input, said, catalog, undefined);
  const own = [grant, input.grant].filter((each) => each !== undefined);
  const authorization = authorizationOf(left.authority, own);
  if (authorization === undefined)
    throw new CountersignError('DISPATCH_FORBIDDEN', 'The grant with which the call was made is not there any more.');
  return { ...left, definition, access, request: { ...asked, ...authorization, tool: definition.name } };
}

function refuseIf(refused: Refused | undefined): void {
  if (refused !== undefined) throw new CountersignError('DISPATCH_FORBIDDEN', refused.message);
}

/** The call's own time, of which some has passed: not while people were asked. Clocks of two workers differ: never more than all of it. */
function timeLeft({ sentAt, heldMs = 0 }: ResumePoint, { limits }: DispatchInput): number {
  const all = limits.callTimeoutSeconds * 1_000;
  const left = all - (Date.now() - Date.parse(sentAt) - heldMs);
  return Math.min(Math.max(left, LEAST_MS), Math.max(all, LEAST_MS));
}

function notAsked({ target, resume }: ResumeInput, told: Told, error: unknown): DispatchResult {
  const why = codedFailureIn(error)?.message ?? 'a fault of this service';
  const message = `Tool "${target.tool}" of server "${target.server}" was sent and may or may not have run: the worker that had sent it was lost, and its server was not asked for the answer (${why}). Find out at the server before anything is done again.`;
  const handedOn = handingOn(told)() ? { resume } : {};
  return { kind: 'ended', outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message }, ...handedOn };
}
