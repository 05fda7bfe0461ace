/**
 * Models a run over continue-as-new and resets, as Temporal keeps it. Events in history are applied again,
 * and every dispatch is checked against what was agreed to since the reset.
 */
import { initiatorRule } from '../../../domain/policy/approvers.ts';
import { expect } from '@jest/globals';
import { checkConsent } from '../../../activities/gate/statement.ts';
import { checkScheduler } from '../../../activities/gate/dispatch-check.ts';
import type { Refused } from '../../../activities/kit/activity.ts';
import { RUN_WORKFLOW } from '../../../contracts/names.ts';
import type { Decision } from '../../../contracts/schemas/request.ts';
import { Limits } from '../../../contracts/schemas/run-spec.ts';
import type { DispatchInput } from '../../../contracts/wire/tools.ts';
import { accept, admit, madeInTime } from '../../../domain/request/decision.ts';
import { acceptEdit, refuseEdit } from '../../../domain/request/edit.ts';
import { lost, remembered, standingOf } from '../../../domain/request/standing.ts';
import { askedAgain, dispatched, ended } from '../../../domain/request/transitions.ts';
import {
  callOf,
  carriedExecutions,
  decidedIn,
  isEdit,
  type Run,
  type RunIds,
  startRun,
} from '../../../domain/state/run.ts';
import { approval, shown } from '../builders/decision.ts';
import { dispatchOf } from '../builders/dispatch.ts';
import { judgement } from '../builders/judgement.ts';
import { POLICY_VERSION, runIds, START } from '../builders/run.ts';
import { Believed, OPEN_VERDICT } from './consent.ts';

const NOW = START + 1_000;
const FALLBACK = { approvers: initiatorRule('ann'), deadlineSeconds: 3_600 };
const limits = Limits.parse({});

/** An event in history, which the run applies whenever it reads it: live, in replay, and after a reset. */
interface Event {
  apply(run: Run, ids: RunIds): Run;
  /** A person's message, which Temporal applies again after a reset. */
  readonly message?: { readonly decision: Decision; readonly by: 'update' | 'signal' };
  /** An activity that was scheduled, or one that has ended. */
  readonly scheduled?: DispatchInput;
  readonly ended?: string;
}

/** One Temporal run. */
interface Lived {
  readonly execution: { readonly runId: string; readonly originalRunId: string; readonly earlier: readonly string[] };
  /** State handed over by continue-as-new; absent in the first execution. */
  readonly carry: string | undefined;
  readonly events: Event[];
}

type Shown = Pick<Decision, 'callId' | 'digest' | 'runId'> & { readonly resets: number };

/** A run as Temporal keeps it, with a server that records what reaches it. */
export class Story {
  chain: Lived[] = [
    { execution: { runId: 'run-0', originalRunId: 'run-0', earlier: [] }, carry: undefined, events: [] },
  ];
  run: Run = startRun(START);
  /** The belief since the last reset: earlier agreements do not count. */
  believed = new Believed();
  sentSince = new Set<string>();
  resets = 0;
  readonly shown: Shown[] = [];
  readonly told = { sent: 0, sentAfterReset: 0, carried: 0, staleDispatch: 0, staleRun: 0, refused: 0, reapplied: 0 };
  #made = 0;

  get living(): Lived {
    const last = this.chain.at(-1);
    if (last === undefined) throw new Error('a chain has an execution');
    return last;
  }

  get ids(): RunIds {
    return runIds({ runId: this.living.execution.runId });
  }

  get decidedIn(): readonly string[] {
    const { runId, originalRunId, earlier } = this.living.execution;
    return decidedIn(runId, originalRunId, earlier);
  }

  happens(event: Event): void {
    this.run = event.apply(this.run, this.ids);
    this.living.events.push(event);
    this.#note();
  }

  /** Notes what a person who looks now sees. */
  #note(): void {
    for (const { call, status } of this.run.calls)
      if (status === 'waiting-for-consent')
        this.shown.push({ ...shown(this.run, call.callId, this.ids), resets: this.resets });
  }

  /**
   * Applies a decision as validator and handler do.
   * @returns the code of a refusal
   */
  decides(decision: Decision, by: 'update' | 'signal'): string | undefined {
    if (by === 'update') {
      const admission = admit(this.run, decision, this.ids, NOW);
      const refusal = admission.kind === 'refuse' ? admission : madeInTime(decision, this.decidedIn);
      if (refusal !== undefined) return refusal.code;
    }
    if (by === 'signal' && decision.kind === 'respond') return 'DECISION_NOT_PERMITTED';
    const before = this.run;
    const args = callOf(before, decision.callId)?.call.arguments;
    this.happens({ apply: (run, ids) => handled(run, decision, ids), message: { decision, by } });
    const isNew = this.run !== before && this.decidedIn.includes(decision.runId);
    if (isNew && decision.kind === 'approve' && args !== undefined) this.believed.said(decision, args);
    return undefined;
  }

  /** Schedules a dispatch as `workflows/run/call.ts` does. */
  schedule(callId: string): void {
    const state = callOf(this.run, callId);
    if (state?.status !== 'approved') return;
    const { standing } = state.consent.made;
    if (standing !== undefined && standingOf(this.run, standing, NOW) === undefined) {
      this.happens({
        apply: (run, ids) =>
          askedAgain(run, callId, { kind: 'reopen', code: 'STANDING_LOST', message: '' }, ids, FALLBACK, NOW).run,
      });
      return;
    }
    const scheduled = { ...dispatchOf(state, this.run), runId: this.ids.runId, decidedIn: this.decidedIn };
    this.happens({ apply: (run) => dispatched(run, callId)?.run ?? run, scheduled });
  }

  /** Activities that have not ended, as this execution knows them. */
  get underWay(): readonly DispatchInput[] {
    const { events } = this.living;
    return events.flatMap(({ scheduled }, index) =>
      scheduled !== undefined && !events.slice(index).some((event) => event.ended === scheduled.callId)
        ? [scheduled]
        : [],
    );
  }

  /** Runs the activity in the living Temporal run. */
  dispatch(input: DispatchInput): void {
    const { callId } = input;
    const refused = this.check(input);
    if (refused === undefined) this.#arrives(input);
    if (refused?.kind === 'reopen') {
      expect(this.resets).toBeGreaterThan(0);
      if (refused.code === 'DISPATCH_STALE_RUN') this.told.staleDispatch += 1;
      if (refused.code === 'DECISION_STALE_RUN') this.told.staleRun += 1;
    }
    // Our own workflow never asks for a forbidden dispatch.
    expect(refused?.kind).not.toBe('refused');
    this.happens({ apply: (run, ids) => answered(run, callId, refused, ids), ended: callId });
  }

  check(input: DispatchInput): Refused | undefined {
    const { namespace, workflowId, runId } = this.ids;
    const scheduler = {
      namespace,
      workflowId,
      runId,
      activity: 'callTool',
      workflowType: RUN_WORKFLOW,
      attempt: 1,
      scheduledAt: 0,
      attemptAt: 0,
    };
    return checkScheduler(input, scheduler) ?? checkConsent(input, OPEN_VERDICT, undefined, NOW);
  }

  /** Checks and records a call that reaches the server. */
  #arrives(input: DispatchInput): void {
    const { callId, proof } = input;
    expect(this.believed.agreed(callId, input.arguments)).toBe(true);
    expect(this.sentSince.has(callId)).toBe(false);
    this.sentSince.add(callId);
    this.told.sent += 1;
    if (this.resets > 0) this.told.sentAfterReset += 1;
    if (proof.kind !== 'decision') return;
    const { decision } = proof;
    if (decision.runId !== this.ids.runId) this.told.carried += 1;
    // Consent to what was shown before a reset is not enough, under its own Temporal run or under the living one.
    for (const { digest, runId } of this.shown.filter((each) => each.callId === callId && each.resets < this.resets))
      for (const named of [runId, decision.runId]) {
        const forged = { ...input, proof: { ...proof, decision: { ...decision, digest, runId: named } } };
        expect(this.check(forged)).toBeDefined();
      }
  }

  /** Continues as new. Requests stay open; only activities in flight must end first. */
  rolls(): void {
    if (this.underWay.length > 0) return;
    const runId = `run-${(this.#made += 1)}`;
    const carry = JSON.stringify({ run: this.run, earlier: carriedExecutions(this.decidedIn) });
    // Sound: the line before wrote it.
    const { run, earlier } = JSON.parse(carry) as { run: Run; earlier: string[] };
    expect(run).toEqual(this.run);
    this.chain.push({ execution: { runId, originalRunId: runId, earlier }, carry, events: [] });
    this.run = run;
    this.#note();
  }

  /**
   * @param which index of the execution, counted from the newest
   * @param kept number of its events that are kept
   */
  isReset(which: number, kept: number): void {
    const at = Math.max(0, this.chain.length - 1 - which);
    const old = this.chain[at];
    if (old === undefined) return;
    const cut = Math.min(kept, old.events.length);
    expect(replayed(this.living, this.living.events, this.ids.runId)).toEqual(this.run);
    const undone = [...old.events.slice(cut), ...this.chain.slice(at + 1).flatMap(({ events }) => events)];
    const wasRun = replayed(old, old.events.slice(0, cut), old.execution.runId);
    const execution = { ...old.execution, runId: `run-${(this.#made += 1)}` };
    this.chain = [...this.chain.slice(0, at), { ...old, execution, events: old.events.slice(0, cut) }];
    this.resets += 1;
    this.believed = new Believed();
    this.sentSince = new Set();
    this.run = replayed(this.living, this.living.events, execution.runId);
    // INV-D4: the same history makes the same state under any name.
    expect(this.run).toEqual(wasRun);
    this.#note();
    for (const { message } of undone) {
      if (message === undefined) continue;
      this.told.reapplied += 1;
      this.decides(message.decision, message.by);
    }
    // Activities that were in flight are scheduled again, with the input in history.
    for (const input of this.underWay) {
      expect(this.check(input)).toMatchObject({ kind: 'reopen', code: 'DISPATCH_STALE_RUN' });
      this.dispatch(input);
    }
  }

  /** Answers what was shown before a reset, under its own Temporal run and under the living one. */
  isAnsweredLate(at: number, decisionId: string, by: 'update' | 'signal'): void {
    const old = this.shown.filter(({ resets }) => resets < this.resets);
    const { callId, digest, runId } = old[at % Math.max(1, old.length)] ?? {};
    if (callId === undefined || digest === undefined || runId === undefined) return;
    const stale = approval({ decisionId, callId, digest, runId });
    const before = this.run;
    expect(this.decides(stale, 'update')).toBeDefined();
    // Nobody was shown this request under that Temporal run, so its digest alone refuses the answer.
    expect(this.decides({ ...stale, runId: this.ids.runId }, 'update')).toBeDefined();
    expect(this.run).toBe(before);
    this.told.refused += 1;
    if (by === 'signal') this.decides(stale, 'signal');
  }
}

/** Applies a decision as the handlers do, which do not look at its Temporal run. */
function handled(run: Run, decision: Decision, ids: RunIds): Run {
  const admission = admit(run, decision, ids, NOW);
  if (admission.kind !== 'accept') return run;
  const { state } = admission;
  if (!isEdit(decision)) return remembered(accept(run, state, decision, NOW).run, decision.callId, NOW).run;
  if (refuseEdit(run, state, decision, limits) !== undefined) return run;
  const judged = {
    judgement: judgement({ callId: decision.callId, verdict: OPEN_VERDICT }),
    policyVersion: POLICY_VERSION,
  };
  const made = acceptEdit(run, state, decision, judged, ids, NOW);
  return made.kind === 'refuse' ? run : made.run;
}

function answered(run: Run, callId: string, refused: Refused | undefined, ids: RunIds): Run {
  const state = callOf(run, callId);
  const standing = state?.status === 'in-flight' ? state.consent?.made.standing : undefined;
  if (refused === undefined) return ended(run, callId, { kind: 'succeeded', result: { content: [] } }).run;
  const dropped = standing === undefined ? run : lost(run, standing, refused.code).run;
  if (refused.kind === 'reopen') return askedAgain(dropped, callId, refused, ids, FALLBACK, NOW).run;
  return ended(dropped, callId, { kind: 'denied', code: refused.code, message: refused.message }).run;
}

/** Returns the state that a history makes. */
function replayed({ carry }: Lived, events: readonly Event[], runId: string): Run {
  // Sound: `rolls` wrote it.
  const begun = carry === undefined ? startRun(START) : (JSON.parse(carry) as { run: Run }).run;
  return events.reduce((run, event) => event.apply(run, runIds({ runId })), begun);
}
