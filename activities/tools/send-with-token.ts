/**
 * The last step of a dispatch: a token for this call, and the call with it (INV-S2).
 *
 * 1. A token is minted once everything has been checked, and given back with the call; another one after a 401 (`with-token.ts`).
 * 2. Where people are asked in the middle of the call, their answers may need another token (`token-renewal.ts`).
 * 3. What leaves too late to be waited for is not sent.
 */
import { cancellationSignal } from '@temporalio/activity';
import type { DispatchInput, DispatchResult } from '../../contracts/dispatch.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { OfferedTool } from '../../domain/toolset.ts';
import type { MintedToken, TokenRequest } from '../tokens/port.ts';
import { askedNow, needOfEnding, needOfToken, wanting } from './authorization-need.ts';
import { authorityOf, type CallAuthority, shownOf } from './call-authority.ts';
import { GRACE_MS, type HeldPeople } from './held-asking.ts';
import { inputOf, pausedBy } from './input-leg.ts';
import { endedBeforeSending, handingOn, resultOf, type Told, withTold } from './dispatch-result.ts';
import type { CallEnding, ServerConnection } from './port.ts';
import { accessTo, connectionOf, secretsOf, type ServerAccess } from './server-access.ts';
import { STORING_MS } from './storing-time.ts';
import { taskResult, type TaskWish } from './task-seal.ts';
import type { Leaving } from './word-now.ts';
import { sealFor } from './resume-point.ts';
import { renewalOf } from './token-renewal.ts';
import { withToken } from './with-token.ts';
import type { Underway } from './call-tool.ts';

/**
 * What leaves later has no time left in which its answer would be waited for: `callActivities` in `workflows/activity-stubs.ts` leaves
 * 90 s beside the call, and storing what it answers takes its part.
 */
const READY_WITHIN_MS = 90_000 - STORING_MS;

interface Asking {
  readonly request: TokenRequest;
  /** Secrets with which its server was asked before. */
  readonly held: readonly string[];
  /** The tokens among them. */
  readonly shown: readonly string[] | undefined;
}

/** The tool as it is now, and whether it is called as a task. */
interface Meant {
  readonly tool: OfferedTool;
  readonly wish: TaskWish;
  readonly leaving: Leaving;
  /** Where its server may ask in the middle of it. */
  readonly people: HeldPeople | undefined;
}

/** With one token, and after a 401 with one fresh one: whatever the call comes to is a value. */
export async function callWithToken(
  parts: Underway,
  input: DispatchInput,
  meant: Meant,
  catalog: CatalogSnapshot | undefined,
  { request, held, shown = [] }: Asking,
): Promise<DispatchResult> {
  const notLeft = (error: unknown): DispatchResult =>
    wanting(endedBeforeSending(error), (failed) => askedNow(needOfToken(parts.config, request, failed), meant.leaving));
  let access: ServerAccess;
  try {
    access = accessTo(parts.config, input.server, catalog);
  } catch (error) {
    return notLeft(error);
  }
  const told: Told = {};
  const seen: MintedToken[] = [];
  const authority = (): CallAuthority => authorityOf(request, [...shown, ...seen.flatMap(shownOf)]);
  const got = await withToken(parts.broker, request, {
    use: async (minted) => {
      if (seen.length > 0) parts.pulse.say({ phase: 'connecting' });
      // The server has seen those before, too: also one that was renewed while people were asked.
      const known = [...held, ...seen.flatMap(secretsOf)];
      seen.push(minted);
      const renewal =
        meant.people === undefined ? undefined : renewalOf(parts.broker, request, minted, (next) => seen.push(next));
      try {
        const connection = { ...connectionOf(input.server, access, minted, known), ...(renewal && { renewal }) };
        return await send(parts, input, meant, connection, told, authority);
      } finally {
        renewal?.release();
      }
    },
    isRefused: (ending) => ending.kind === 'refused' && ending.code === 'TOOL_UNAUTHORIZED',
  });
  if (got.kind === 'none') return notLeft(got.error);
  const { used: ending, token } = got;
  if (ending.kind === 'input')
    return await pausedBy(ending, input, { ...parts, mode: parts.config.trust.mode }, token.evidence);
  if (ending.kind === 'task') return await taskResult(ending, input, parts, authority(), told, token.evidence);
  const said = ending.kind === 'refused' ? { ...ending, message: `${ending.message}${whyNone(got.noOther)}` } : ending;
  const ended = withTold(resultOf(said, token, told), meant.people?.told() ?? []);
  return wanting(ended, () =>
    said.kind === 'refused' ? askedNow(needOfEnding(parts.config, request, said), meant.leaving) : undefined,
  );
}

/** Of a fresh token, for whoever has to mend it: that the server trusts another issuer, for instance. */
function whyNone(error: unknown): string {
  const coded = codedFailureIn(error);
  return coded === undefined ? '' : ` ${coded.message}`;
}

async function send(
  { config, server, seal, pulse, began }: Underway,
  input: DispatchInput,
  { tool, wish, people }: Meant,
  connection: ServerConnection,
  told: Told,
  authority: () => CallAuthority,
): Promise<CallEnding> {
  const readyWithinMs = READY_WITHIN_MS - (people === undefined ? 0 : GRACE_MS);
  if (Date.now() - began > readyWithinMs) return tooLate(input);
  return await server.call(connection, {
    definition: tool.definition,
    arguments: input.arguments,
    // Of the call that was proven, whatever key its input names.
    idempotencyKey: `${input.run.workflowId}/${input.callId}`,
    timeoutMs: input.limits.callTimeoutSeconds * 1_000,
    resultBytes: input.limits.resultBytes,
    ...(input.limits.sharedBy === undefined ? {} : { sharedBy: input.limits.sharedBy }),
    signal: cancellationSignal(),
    heartbeat: (details) => {
      told.last = details;
      told.sentAt = details.sentAt ?? told.sentAt;
      pulse.say(details);
    },
    ...sealFor(input, seal, authority),
    isHandedOn: handingOn(told),
    ...(wish.kind === 'task' ? { task: wish.task } : {}),
    ...(people === undefined ? {} : { people: people.ask }),
    ...(await inputOf(input, seal, config.trust.mode)),
  });
}

function tooLate({ server, target }: DispatchInput): CallEnding {
  const message = `Listing the tools of server "${server.name}" and obtaining a token took more than ${READY_WITHIN_MS / 1_000} s; tool "${target.tool}" was not called.`;
  return { kind: 'not-sent', code: 'TOOL_UNAVAILABLE', message };
}
