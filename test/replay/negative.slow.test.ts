// Negative controls: workflows that would break waiting runs do not pass. A replay suite that cannot fail proves nothing.
import { expect, jest, test } from '@jest/globals';
import type { WorkflowBundle } from '../../workers/bundle.ts';
import { CommandLog, compareHistories } from '../../workers/replay-semantics.ts';
import { replayHistories, type ReplayOutcome } from '../../workers/replay.ts';
import { type Answered, askAgain } from './ask-again.ts';
import { CONFIG, recorded } from './corpus.ts';
import { bundleMutant, type Mutation } from './mutant.ts';
import { PAUSE_COMMANDS, PAUSE_CONTENT, PAUSE_REFUSALS } from './pause-mutations.ts';
import { SIGNED_CONTENT, SIGNED_REFUSALS } from './signed-mutations.ts';
import { OTHER_COMMANDS, OTHER_CONTENT, OTHER_REFUSALS } from './mutations.ts';

// Each bundles the workflow and replays a corpus: 20 s of a core that other suites use, too.
jest.setTimeout(240_000);

/** Enough to notice each mutation; the whole corpus would take minutes. */
const SOME = [
  'agent-run.v1.completed',
  'agent-run.v1.continued-first',
  'agent-run.v1.one-decided',
  'agent-run.v1.reset-waiting',
  'agent-run.v1.two-lists',
  'agent-run.v2.counted-sent',
  'agent-run.v2.edited-of-two',
  'agent-run.v2.edited-waits',
  'agent-run.v2.escalated-sent',
  'agent-run.v2.extended',
  'agent-run.v2.held-first',
  'agent-run.v2.held-sent',
  'agent-run.v2.interrupted',
  'agent-run.v2.lost',
  'agent-run.v2.lost-answered',
  'agent-run.v2.lost-continued',
  'agent-run.v2.lost-ended',
  'agent-run.v2.lost-sent-again',
  'agent-run.v2.one-of-two',
  'agent-run.v2.reminded',
  'agent-run.v2.repeated',
  'agent-run.v2.server-asks',
  'agent-run.v2.server-asks-again',
  'agent-run.v2.server-asks-continued',
  'agent-run.v2.server-asks-ended',
  'agent-run.v2.shared-sent',
  'agent-run.v2.signed',
  'agent-run.v2.signed-sent',
  'agent-run.v2.spent',
  'agent-run.v2.standing',
  'agent-run.v2.unauthorized',
  'agent-run.v2.unauthorized-ended',
  'agent-run.v2.unauthorized-granted',
  'agent-run.v3.continued-first',
  'tool-catalog.v2.connected',
  'tool-catalog.v2.continued-first',
  'tool-catalog.v2.signed-continued',
  'tool-catalog.v2.signed-continued-first',
];

const COMMANDS = [...OTHER_COMMANDS, ...PAUSE_COMMANDS];
const CONTENT = [...OTHER_CONTENT, ...SIGNED_CONTENT, ...PAUSE_CONTENT];
const REFUSALS = [...OTHER_REFUSALS, ...SIGNED_REFUSALS, ...PAUSE_REFUSALS];

const named = (mutations: readonly Mutation[]) => mutations.map((mutation) => [mutation.name, mutation] as const);

async function failures(outcomes: AsyncIterable<ReplayOutcome>): Promise<Error[]> {
  const errors: Error[] = [];
  for await (const { error } of outcomes) if (error !== undefined) errors.push(error);
  return errors;
}

async function changedAnswers(bundle: WorkflowBundle): Promise<Answered[]> {
  const changed: Answered[] = [];
  for await (const answered of askAgain(SOME, bundle))
    if (answered.answer !== answered.expected) changed.push(answered);
  return changed;
}

/** What Temporal alone says. */
async function replayFailures(bundle: WorkflowBundle): Promise<Error[]> {
  return await failures(replayHistories(recorded(SOME), { bundle, config: CONFIG, sinks: new CommandLog().sinks }));
}

async function differences(bundle: WorkflowBundle): Promise<Error[]> {
  return await failures(compareHistories(recorded(SOME), { bundle, config: CONFIG }));
}

test.each(named(COMMANDS))('Temporal notices: %s', async (_, mutation) => {
  const errors = await replayFailures(await bundleMutant(mutation));
  expect(errors.map(({ name }) => name)).toContain('DeterminismViolationError');
});

test.each(named(CONTENT))('the comparison notices, and Temporal does not: %s', async (_, mutation) => {
  const bundle = await bundleMutant(mutation);
  expect(await replayFailures(bundle)).toEqual([]);
  const messages = (await differences(bundle)).map(({ message }) => message);
  expect(messages).not.toEqual([]);
  // Where, and never what: values are prompts and arguments.
  for (const message of messages)
    expect(message).toMatch(
      /^Event \d+, [a-zA-Z -]+, differs at [\w./[\]]+: this code would do otherwise than the run has done\.$/,
    );
});

test.each(named(REFUSALS))('asking again notices, and no replay does: %s', async (_, mutation) => {
  const bundle = await bundleMutant(mutation);
  expect(await differences(bundle)).toEqual([]);
  expect(await changedAnswers(bundle)).not.toEqual([]);
});

test('a mutation that no longer fits the code is not taken for one that was noticed', async () => {
  await expect(
    bundleMutant({ name: 'none', file: 'workflows/turn.ts', find: 'no such code', put: '' }),
  ).rejects.toThrow('0 times');
});
