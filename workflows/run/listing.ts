/**
 * Lists the tools of a run's servers before its first turn.
 *
 * It owns the order of listing, asking and waiting. It does not own what is asked (`domain/run/toolset.ts`), nor who
 * may answer.
 * 1. If a server refuses the list for want of a grant, people are asked while the other lists continue. The list is
 *    then asked for again with the new grant. If nobody gives one, the run ends with the reason for the refusal.
 * 2. Temporal's own retries wait for a server that is away. A run that hands over meanwhile cancels them
 *    (docs/adr/0050).
 * 3. Only runs that were prepared for it ask people; others end at once, as before. The first question leaves a marker,
 *    so that no build without this feature takes the run up (INV-D1).
 */
import { initiatorRule } from '../../domain/policy/approvers.ts';
import { CancellationScope, CancelledFailure, condition, isCancellation, patched } from '@temporalio/workflow';
import { isErrorCode } from '../../contracts/errors.ts';
import { codedFailureIn, failureOf } from '../../contracts/failure.ts';
import { isListing } from '../../contracts/names.ts';
import type { Discovery, ServerBinding } from '../../contracts/schemas/tool.ts';
import type { DiscoverInput, TurnedAway } from '../../contracts/wire/tools.ts';
import { listingAsked, listingId, listingInput, toolsetOf, whyEnded } from '../../domain/run/toolset.ts';
import { isAsking } from '../../domain/state/call.ts';
import { callOf, isSettled } from '../../domain/state/run.ts';
import { answered } from '../entity/unread.ts';
import { discoveryActivities } from './activities.ts';
import { waitForDecision } from './call.ts';
import { grantProofs } from './dispatch-input.ts';
import type { LiveRun } from './live-run.ts';
import { deadlineOfAnswers } from './pauses.ts';

/**
 * Lists the tools of all servers. `roll` means that the run should first continue as new while lists wait. The next
 * execution asks again for the lists that are already there.
 * @param onWait called when people are asked
 */
export async function listTools(live: LiveRun, onWait: () => void): Promise<'done' | 'roll'> {
  const { servers, listings, awayServers } = live.prepared;
  const lists = new Lists(live, onWait);
  const wantsToRoll = (): boolean => live.reasonToRoll !== undefined;
  let found: readonly Discovery[] | undefined;
  const all = Promise.all(servers.map((server, index) => lists.discover(server, index))).then((each) => {
    if (!live.rolling && !lists.areLetGo) found = each.filter((one) => one !== undefined);
  });
  if (awayServers !== undefined) await Promise.race([all, condition(() => found !== undefined || wantsToRoll())]);
  else if (listings === undefined) await all;
  else await Promise.race([all, condition(() => found !== undefined || (wantsToRoll() && lists.areWaiting))]);
  if (found === undefined) {
    if (awayServers !== undefined) lists.letGo();
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

class Lists {
  readonly #live: LiveRun;
  readonly #onWait: () => void;
  readonly #asking = new CancellationScope();
  #underWay = 0;
  /** True once the run hands over; its next execution asks again. */
  areLetGo = false;

  constructor(live: LiveRun, onWait: () => void) {
    this.#live = live;
    this.#onWait = onWait;
  }

  /** True at a safe point: every list is there or waits for people. */
  get areWaiting(): boolean {
    const { calls } = this.#live.run;
    return this.#underWay === 0 && calls.filter(({ call }) => isListing(call.callId)).every(isAsking);
  }

  letGo(): void {
    this.areLetGo = true;
    this.#asking.cancel();
  }

  /** Returns the list of one server, or undefined if the run hands over first. */
  async discover(server: ServerBinding, index: number): Promise<Discovery | undefined> {
    const live = this.#live;
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
      const found = await this.#ask(server);
      if (found === undefined) return undefined;
      if (!('authorization' in found)) return found;
      const { authorization: need } = found;
      const pausing = {
        approvers: initiatorRule(live.prepared.initiator.id),
        deadlineSeconds: deadlineOfAnswers(live),
        at: Date.now(),
      };
      const change = listingAsked(live.run, { server, index }, need, pausing, live.ids);
      if (change === undefined || !patched('lists')) throw failedWith(need, server);
      this.#onWait();
      live.commit(change);
    }
  }

  /**
   * Asks for one list. If its server takes no more just now, Temporal retries a few times. The list is then asked for
   * anew, for as long as a call may wait.
   */
  async #ask(server: ServerBinding): Promise<Discovery | TurnedAway | undefined> {
    const live = this.#live;
    const { prepared } = live;
    if (prepared.awayServers !== undefined) return await this.#untilThere(server);
    const since = Date.now();
    for (;;) {
      this.#underWay += 1;
      try {
        const { discoverTools } = discoveryActivities(server, prepared.priority);
        return answered(live, 'discoverTools', await discoverTools(inputFor(live, server)));
      } catch (error) {
        const heldSeconds = codedFailureIn(error)?.facts['heldSeconds'];
        if (typeof heldSeconds !== 'number' || Date.now() - since >= heldSeconds * 1_000) throw error;
        if (prepared.listings === undefined || !patched('lists')) throw error;
      } finally {
        this.#underWay -= 1;
      }
    }
  }

  /** Waits for a server that is away. Returns undefined if the run hands over first. */
  async #untilThere(server: ServerBinding): Promise<Discovery | TurnedAway | undefined> {
    const live = this.#live;
    const { priority, awayServers } = live.prepared;
    const { discoverTools } = discoveryActivities(server, priority, awayServers);
    try {
      const found = await live.list(server.name, () => this.#asking.run(() => discoverTools(inputFor(live, server))));
      return answered(live, 'discoverTools', found);
    } catch (error) {
      if (this.areLetGo && isCancellation(error)) return undefined;
      throw error;
    }
  }
}

function inputFor(live: LiveRun, server: ServerBinding): DiscoverInput {
  const { spec, prepared, identity, signedSpec } = live;
  return { ...listingInput(identity, spec.grants, prepared, server, signedSpec), ...grantProofs(live, server.name) };
}

function failedWith({ reason, message }: { reason: string; message: string }, { name }: ServerBinding): Error {
  return failureOf(isErrorCode(reason) ? reason : 'INTERNAL', message, { server: name });
}
