/** Definitions of the updates, signals and queries of a run, under the names that `contracts/names.ts` fixes. */
import { defineQuery, defineSignal, defineUpdate } from '@temporalio/workflow';
import { QUERIES, SIGNALS, UPDATES } from '../../contracts/names.ts';
import type { ApprovalRequest, DecisionAck, ForgetAck, PauseAck } from '../../contracts/schemas/request.ts';
import type { Advance, RunState } from '../../contracts/schemas/run-state.ts';
import type { HeldAck, HeldWord } from '../../contracts/wire/legacy-2025.ts';

// Inputs are `unknown`: anyone who may write to the namespace may send anything, so each handler parses first.
export const decideUpdate = defineUpdate<DecisionAck, [unknown]>(UPDATES.decide);
export const sayUpdate = defineUpdate<Advance, [unknown]>(UPDATES.say);
export const advanceUpdate = defineUpdate<Advance, []>(UPDATES.advance);
export const forgetUpdate = defineUpdate<ForgetAck, [unknown]>(UPDATES.forget);
export const stopUpdate = defineUpdate<Advance, [unknown]>(UPDATES.stop);
export const resolveOutcomeUpdate = defineUpdate<PauseAck, [unknown]>(UPDATES.resolveOutcome);
export const provideInputUpdate = defineUpdate<PauseAck, [unknown]>(UPDATES.provideInput);
export const authorizeUpdate = defineUpdate<PauseAck, [unknown]>(UPDATES.authorize);
/** A dispatch sends this update, not a person. */
export const inputAskedUpdate = defineUpdate<HeldAck, [unknown]>(UPDATES.inputAsked);
export const refreshTrustUpdate = defineUpdate<Advance, []>(UPDATES.refreshTrust);

export const decideSignal = defineSignal<[unknown]>(SIGNALS.decide);
export const presentSignal = defineSignal<[unknown]>(SIGNALS.present);

export const stateQuery = defineQuery<RunState>(QUERIES.state);
export const requestsQuery = defineQuery<ApprovalRequest[]>(QUERIES.requests);
export const heldInputQuery = defineQuery<HeldWord, [unknown]>(QUERIES.heldInput);
