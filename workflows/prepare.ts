/** A run's first command: validate the spec. */
import { comparingDecisions } from '../domain/decision.ts';
import { startedFact } from '../domain/facts.ts';
import { remembering } from '../domain/repeats.ts';
import { comparing } from '../domain/talk.ts';
import { runActivities } from './activity-stubs.ts';
import type { LiveRun } from './live-run.ts';
import { answered } from './unread.ts';

export async function prepare(live: LiveRun): Promise<void> {
  const answer = await runActivities('check the spec').prepareRun(live.spec);
  const { opening, ...prepared } = answered(live, 'prepareRun', answer);
  live.prepared = prepared;
  if (prepared.repeats === 'answered') live.run = remembering(live.run);
  if (prepared.messageIds === 'compared') live.run = comparing(live.run);
  if (prepared.decisionIds === 'compared') live.run = comparingDecisions(live.run);
  if (prepared.price !== undefined) live.run = { ...live.run, spent: 0 };
  if (prepared.trust !== undefined) live.believe(prepared.trust, Date.now());
  live.commit({ run: live.run, facts: [startedFact({ ...prepared, opening }, live.spec.agent)] });
  for (const message of opening) live.say(message);
}
