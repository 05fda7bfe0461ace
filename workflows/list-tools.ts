/**
 * The tools of a run's servers, before its first turn.
 *
 * Owns: the order of listing, asking and waiting. Does not own: what is asked (`domain/listing.ts`), nor who may answer.
 * 1. A server that turns the list away for want of a grant is asked about, beside the other lists, and listed again with what was
 *    given. Where nobody gives another one, the run ends with what was in the way.
 * 2. A server that is away is waited for by Temporal's own retries, and a run that hands over meanwhile lets go of them (docs/adr/0050).
 * 3. Only runs that were prepared for it ask: others end at once, as they did. Where one asks, it leaves a marker, so that no build
 *    that cannot takes it up (INV-D1).
 */
import { CancellationScope, CancelledFailure, condition, isCancellation, patched } from '@temporalio/workflow';
import type { DiscoverInput, TurnedAway } from '../contracts/discovery.ts';
import { isErrorCode } from '../contracts/errors.ts';
import { codedFailureIn, failureOf } from '../contracts/failure.ts';
import type { Discovery, ServerBinding } from '../contracts/schemas/tool.ts';
import { grantorOf } from '../domain/authorization.ts';
import { isListing, listingId } from '../domain/listing-id.ts';
import { listed, listingAsked, whyEnded } from '../domain/listing.ts';
import { callOf } from '../domain/run.ts';
import { isSettled } from '../domain/status.ts';
import { discoveryActivities } from './activity-stubs.ts';
import type { LiveRun } from './live-run.ts';
import { grantProofs } from './pause-proofs.ts';
import { deadlineOfAnswers } from './pauses.ts';
import { wantsToRoll } from './roll.ts';
import { answered } from './unread.ts';
import { waitForDecision } from './waiting.ts';

/**
 * `roll`: the run should continue as new first, while its lists wait; those that are there are asked for again then.
 * @param onWait called where people are asked
 */
export async function listTools(live: LiveRun, onWait: () => void): Promise<'done' | 'roll'> {
  const { servers, listings, awayServers } = live.prepared;
  const lists = new Lists(live, onWait);
  let found: readonly Discovery[] | undefined;
  const all = Promise.all(servers.map((server, index) => lists.discover(server, index))).then((each) => {
    if (!live.rolling && !lists.areLetGo) found = each.filter((one) => one !== undefined);
  });
  if (awayServers !== undefined) await Promise.race([all, condition(() => found !== undefined || wantsToRoll(live))]);
  else if (listings === undefined) await all;
  else await Promise.race([all, condition(() => found !== undefined || (wantsToRoll(live) && lists.areWaiting))]);
  if (found === undefined) {
    if (awayServers !== undefined) lists.letGo();
    return 'roll';
  }
  pin(live, found);
  return 'done';
}

function pin(live: LiveRun, found: readonly Discovery[]): void {
  live.run = listed(live.run);
  live.toolset = found.map(({ tools, server, grantExpiresAt }, index) => {
    const allowedTools = live.prepared.servers[index]?.allowedTools;
    return {
      server,
      tools,
      ...(allowedTools === undefined ? {} : { allowedTools }),
      ...(grantExpiresAt === undefined ? {} : { grantExpiresAt }),
    };
  });
  live.commit({
    run: live.run,
    facts: found.map(({ server, tools, count, refused, missing }) => ({
      kind: 'tools.discovered',
      server,
      count,
      toolsHash: tools.sha256,
      refused: refused.map(({ name, reason }) => `${name}: ${reason}`),
      ...(missing === undefined ? {} : { missing: missing.map(({ name }) => name) }),
    })),
  });
}

class Lists {
  readonly #live: LiveRun;
  readonly #onWait: () => void;
  readonly #asking = new CancellationScope();
  #underWay = 0;
  /** The run hands over, and asks again in its next execution. */
  areLetGo = false;

  constructor(live: LiveRun, onWait: () => void) {
    this.#live = live;
    this.#onWait = onWait;
  }

  /** Each is there, or waits for people: a safe point. */
  get areWaiting(): boolean {
    const { calls } = this.#live.run;
    return this.#underWay === 0 && calls.filter(({ call }) => isListing(call.callId)).every(isAsking);
  }

  letGo(): void {
    this.areLetGo = true;
    this.#asking.cancel();
  }

  /** Undefined where the run hands over first. */
  async discover(server: ServerBinding, index: number): Promise<Discovery | undefined> {
    const live = this.#live;
    const callId = listingId(index);
    for (;;) {
      const state = callOf(live.run, callId);
      if (live.rolling) return undefined;
      if (state !== undefined && isAsking(state)) {
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
        approvers: grantorOf(live.prepared.initiator.id),
        deadlineSeconds: deadlineOfAnswers(live),
        at: Date.now(),
      };
      const change = listingAsked(live.run, { server, index }, need, pausing, live.ids);
      if (change === undefined || !patched('lists')) throw failedWith(need, server);
      this.#onWait();
      live.commit(change);
    }
  }

  /** Where its server takes no more just now, Temporal repeats it some times; then it is asked anew, for as long as a call may wait. */
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

  /** Undefined where the run hands over first. */
  async #untilThere(server: ServerBinding): Promise<Discovery | TurnedAway | undefined> {
    const live = this.#live;
    const { priority, awayServers } = live.prepared;
    const { discoverTools } = discoveryActivities(server, priority, awayServers);
    live.listing.add(server.name);
    live.onChange();
    try {
      return answered(live, 'discoverTools', await this.#asking.run(() => discoverTools(inputFor(live, server))));
    } catch (error) {
      if (this.areLetGo && isCancellation(error)) return undefined;
      throw error;
    } finally {
      live.listing.delete(server.name);
    }
  }
}

function inputFor(live: LiveRun, server: ServerBinding): DiscoverInput {
  const { spec, prepared } = live;
  const grant = spec.grants?.find((entry) => entry.server === server.name);
  return {
    run: live.identity,
    server,
    ...(grant === undefined ? {} : { grant }),
    ...live.signedSpec,
    ...(prepared.listings === undefined ? {} : { mayAsk: true }),
    ...(prepared.tasks === undefined ? {} : { tasks: prepared.tasks }),
    ...(prepared.links?.includes(server.name) === true ? { links: true } : {}),
    ...grantProofs(live, server.name),
  };
}

function isAsking<State extends { readonly status: string }>(
  state: State,
): state is Extract<State, { readonly status: 'asking' }> {
  return state.status === 'asking';
}

function failedWith({ reason, message }: { reason: string; message: string }, { name }: ServerBinding): Error {
  return failureOf(isErrorCode(reason) ? reason : 'INTERNAL', message, { server: name });
}
