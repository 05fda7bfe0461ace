/**
 * Handles questions that a server asks on the open connection of a call (docs/adr/0040).
 *
 * 1. A validator only reads; the handler behind it compares nothing that depends on the Temporal run (INV-D4).
 * 2. Only calls of runs that were prepared for questions of this server wait so.
 * 3. While a question is open its call counts as in flight: the run does not continue as new, and `dispatch` waits.
 */
import { defineQuery, setHandler } from '@temporalio/workflow';
import { QUERIES, UPDATES } from '../../contracts/names.ts';
import type { HeldAck, HeldQuestions } from '../../contracts/wire/legacy-2025.ts';
import {
  admitElicitation,
  elicitationOpened,
  elicitationClosed,
  flightOf,
  type ElicitationPausing,
  heldWord,
} from '../../domain/legacy-2025/open-question.ts';
import { parseHeldQuestions } from '../../domain/shapes/inputs.ts';
import { type AskingOnConnection, callOf, type CallState } from '../../domain/state/run.ts';
import { askedAbout, onUpdate, parsed, refuseWith } from '../entity/entity.ts';
import { closed } from '../run/answers.ts';
import { closeQuestion, waitForAnswer } from '../run/call.ts';
import { holdOf } from '../run/dispatch-input.ts';
import type { LiveRun } from '../run/live-run.ts';
import { whoAnswers } from '../run/pauses.ts';

/** Registers the update by which a dispatch asks, and the query by which it reads the answer. */
export function serveElicitation(live: LiveRun): void {
  onUpdate(live, UPDATES.inputAsked, {
    description: 'From the dispatch of a call: its server asks people, and waits on an open connection',
    read: (input) => parsed(parseHeldQuestions(input), 'MESSAGE_INVALID'),
    check: (asked) => {
      if (live.closing || live.work.consideredCancelled) throw closed();
      admitted(live, asked);
    },
    act: (asked) => take(live, asked),
  });
  setHandler(defineQuery(QUERIES.heldInput), (place?: unknown) => heldWord(live.run, askedAbout(place)));
}

function admitted(live: LiveRun, asked: HeldQuestions): AskingOnConnection {
  const admission = admitElicitation(live.run, asked, pausingOf(live, callOf(live.run, asked.callId)));
  refuseWith(admission);
  return admission.state;
}

function take(live: LiveRun, asked: HeldQuestions): HeldAck {
  // A question is refused here only if it raced another message in the same task.
  if (live.work.consideredCancelled) throw closed();
  const state = admitted(live, asked);
  live.commit(elicitationOpened(live.run, state, live.ids));
  void live.work.run(() => waitForPeople(live, state));
  return { deadline: new Date(state.request.deadline).toISOString() };
}

/** Runs the deadline of this question and its due reminders, beside the dispatch that waits for its server. */
async function waitForPeople(live: LiveRun, { call: { callId }, request }: AskingOnConnection): Promise<void> {
  for (;;) {
    const state = callOf(live.run, callId);
    // The next question has a waiter of its own.
    if (state?.status !== 'asking-on-connection' || state.request.generation !== request.generation || live.rolling)
      return;
    await waitForAnswer(live, state, {
      expired: () => live.commit(elicitationClosed(live.run, callId, 'expired')),
      withdrawn: () => closeQuestion(live, callId),
    });
  }
}

/**
 * How people are asked about a call that its server may hold open. Not while a lost worker's answer is asked for: no
 * connection is open, and a question would hide how the call ends (INV-X1).
 */
function pausingOf(live: LiveRun, state: CallState | undefined): ElicitationPausing | undefined {
  const at = Date.now();
  const flight = state && live.dispatching.has(state.call.callId) ? flightOf(state, at) : undefined;
  if (flight === undefined) return undefined;
  const { hold } = holdOf(live, flight);
  return hold && { ...whoAnswers(live, flight), at, holdSeconds: hold.seconds };
}
