import type { HeldQuestions } from '../../../contracts/wire/legacy-2025.ts';
import {
  admitElicitation,
  elicitationOpened,
  type ElicitationPausing,
} from '../../../domain/legacy-2025/open-question.ts';
import { type AskingOnConnection, callOf, type Run } from '../../../domain/state/run.ts';
import { approverRule } from './judgement.ts';
import { flyingRun } from './pause.ts';
import { NAME } from './provision.ts';
import { runIds, START } from './run.ts';

/** Makes questions as the dispatch of the call of `flyingRun` reports them. */
export function heldQuestions(over: Partial<HeldQuestions> = {}): HeldQuestions {
  return { callId: 't1.c0', attempt: 1, round: 1, requests: { who: NAME }, ...over };
}

export function heldPausing(over: Partial<ElicitationPausing> = {}): ElicitationPausing {
  return { at: START, approvers: approverRule(), deadlineSeconds: 3_600, holdSeconds: 600, ...over };
}

/** Makes a run whose server waits on an open connection. */
export function heldRun(
  run: Run = flyingRun(),
  asked: Partial<HeldQuestions> = {},
  more: Partial<ElicitationPausing> = {},
): Run {
  const admission = admitElicitation(run, heldQuestions(asked), heldPausing(more));
  if (admission.kind !== 'accept') throw new Error(`not taken: ${admission.message}`);
  return elicitationOpened(run, admission.state, runIds()).run;
}

export function heldOf(run: Run): AskingOnConnection {
  const state = callOf(run, 't1.c0');
  if (state?.status !== 'asking-on-connection') throw new Error('its server waits for nobody');
  return state;
}
