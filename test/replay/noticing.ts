/** What each layer of replay says of a changed workflow, asked with the one history in which the change shows. */
import type { WorkflowBundle } from '../../workers/bundle.ts';
import { withRefusals } from '../../workers/replay/refusals.ts';
import { CommandLog, compareHistories } from '../../workers/replay/semantics.ts';
import { replayHistories, type ReplayOutcome } from '../../workers/replay/replay.ts';
import { type Answered, askAgain } from './ask-again.ts';
import { CONFIG, historyOf, inputsOf, recorded } from './corpus.ts';
import type { Mutation } from './mutant.ts';

/** Each bundles the workflow: some seconds of a core that other suites use, too. */
export const NOTICING_MS = 240_000;

export function named(mutations: readonly Mutation[]): (readonly [string, Mutation])[] {
  return mutations.map((mutation) => [mutation.name, mutation] as const);
}

/** What Temporal alone says. */
export async function replayFailures(bundle: WorkflowBundle, history: string): Promise<Error[]> {
  const options = { bundle, config: CONFIG, sinks: new CommandLog().sinks };
  return await failures(replayHistories(recorded([history]), options));
}

export async function differences(bundle: WorkflowBundle, history: string): Promise<Error[]> {
  return await failures(compareHistories(recorded([history]), { bundle, config: CONFIG }));
}

/** What `countersign replay` says after its own questions. */
export async function mistakenAnswers(bundle: WorkflowBundle, name: string): Promise<Error[]> {
  const history = await historyOf(name);
  const { workflowId } = await inputsOf(name);
  return await failures(withRefusals([{ name, workflowId, history }], { bundle, config: CONFIG }));
}

export async function changedAnswers(bundle: WorkflowBundle, history: string): Promise<Answered[]> {
  const changed: Answered[] = [];
  for await (const answered of askAgain([history], bundle))
    if (answered.answer !== answered.expected) changed.push(answered);
  return changed;
}

async function failures(outcomes: AsyncIterable<ReplayOutcome>): Promise<Error[]> {
  const errors: Error[] = [];
  for await (const { error } of outcomes) if (error !== undefined) errors.push(error);
  return errors;
}
