/**
 * Lists the tools of a run's servers before its first turn (`domain/run/toolset.ts`).
 *
 * 1. If a server refuses the list for want of a grant, people are asked while the other lists continue. The list is
 *    then asked for again with the new grant. If nobody gives one, the run ends with the reason for the refusal.
 * 2. Temporal's own retries wait for a server that is away; a run that hands over cancels them (docs/adr/0050).
 * 3. Only runs that were prepared for it ask people; others end at once.
 */
import { DEFAULT_DEADLINE_SECONDS, initiatorRule } from '../../domain/policy/approvers.ts';
import { CancellationScope, CancelledFailure, isCancellation } from '@temporalio/workflow';
import { isErrorCode } from '../../contracts/errors.ts';
import { failureOf } from '../../contracts/failure.ts';
import type { Discovery, ServerBinding } from '../../contracts/schemas/tool.ts';
import type { DiscoverInput, TurnedAway } from '../../contracts/wire/tools.ts';
import { listingAsked, listingId, listingInput, toolsetOf, whyEnded } from '../../domain/run/toolset.ts';
import { callOf, isAsking, isSettled } from '../../domain/state/run.ts';
import { answered } from '../entity/unread.ts';
import { discoveryActivities } from './activities.ts';
import { waitForDecision } from './call.ts';
import { grantProofs } from './dispatch-input.ts';
import type { LiveRun } from './live-run.ts';
import { condition } from '../interceptors/condition.ts';

/** `roll`: the run should first continue as new while lists wait; the next execution asks again for all of them. */
export async function listTools(live: LiveRun): Promise<'done' | 'roll'> {
  const { servers } = live.prepared;
  const lists: Lists = { asking: new CancellationScope(), areLetGo: false };
  let found: readonly Discovery[] | undefined;
  const all = Promise.all(servers.map((server, index) => discover(live, lists, server, index))).then((each) => {
    if (!live.rolling && !lists.areLetGo) found = each.filter((one) => one !== undefined);
  });
  await Promise.race([all, condition(() => found !== undefined || live.reasonToRoll !== undefined)]);
  if (found === undefined) {
    lists.areLetGo = true;
    lists.asking.cancel();
    return 'roll';
  }
  pin(live, found);
  return 'done';
}

/** Takes the tools of all servers. @param at epoch ms; absent: now */
export function pin(live: LiveRun, found: readonly Discovery[], at?: number): void {
  live.pin(
    toolsetOf(found, live.prepared.servers),
    found.map(({ server, tools, count, refused, missing }) => ({
      kind: 'tools.discovered',
      server,
      count,
      toolsHash: tools.sha256,
      refused: refused.map(({ name, reason }) => `${name}: ${reason}`),
      ...(missing === undefined ? {} : { missing: missing.map(({ name }) => name) }),
    })),
    at,
  );
}

interface Lists {
  readonly asking: CancellationScope;
  areLetGo: boolean;
}

async function discover(
  live: LiveRun,
  lists: Lists,
  server: ServerBinding,
  index: number,
): Promise<Discovery | undefined> {
  const callId = listingId(index);
  for (;;) {
    const state = callOf(live.run, callId);
    if (live.rolling) return undefined;
    if (isAsking(state)) {
      live.enter('acting');
      await waitForDecision(live, state);
      continue;
    }
    if (state !== undefined && isSettled(state)) {
      if (live.work.consideredCancelled) throw new CancelledFailure('The run ended before its tools were listed.');
      throw failedWith(whyEnded(state), server);
    }
    const found = await ask(live, lists, server);
    if (found === undefined) return undefined;
    if (!('authorization' in found)) return found;
    const { authorization: need } = found;
    const pausing = {
      approvers: initiatorRule(live.prepared.initiator.id),
      deadlineSeconds: live.prepared.answerers?.deadlineSeconds ?? DEFAULT_DEADLINE_SECONDS,
      at: Date.now(),
    };
    const change = listingAsked(live.run, { server, index }, need, pausing, live.ids);
    if (change === undefined) throw failedWith(need, server);
    live.commit(change);
  }
}

/** Asks for one list, and waits for a server that is away. Returns undefined if the run hands over first. */
async function ask(live: LiveRun, lists: Lists, server: ServerBinding): Promise<Discovery | TurnedAway | undefined> {
  const { discoverTools } = discoveryActivities(server, live.prepared.priority);
  try {
    const found = await live.list(server.name, () => lists.asking.run(() => discoverTools(inputFor(live, server))));
    return answered(live, 'discoverTools', found);
  } catch (error) {
    if (lists.areLetGo && isCancellation(error)) return undefined;
    throw error;
  }
}

function inputFor(live: LiveRun, server: ServerBinding): DiscoverInput {
  const { spec, prepared, identity, signedSpec } = live;
  return { ...listingInput(identity, spec.grants, prepared, server, signedSpec), ...grantProofs(live, server.name) };
}

function failedWith({ reason, message }: { reason: string; message: string }, { name }: ServerBinding): Error {
  return failureOf(isErrorCode(reason) ? reason : 'INTERNAL', message, { server: name });
}
