/**
 * What each negative control expects: workflows that would break waiting runs do not pass. A replay suite that cannot
 * fail proves nothing.
 */
import { beforeAll, expect, jest, test } from '@jest/globals';
import type { WorkflowBundle } from '../../workers/bundle.ts';
import { bundleMutants, type Mutation } from './mutant.ts';
import { changedAnswers, differences, named, NOTICING_MS, replayFailures } from './noticing.ts';

/** Controls of one subject, by who notices them. */
export interface Controls {
  /** Temporal compares commands. */
  readonly commands?: readonly Mutation[];
  /** The proof of an activity's answer covers its input. */
  readonly questions?: readonly Mutation[];
  /** The comparison with what was recorded. */
  readonly content?: readonly Mutation[];
  /** Messages that are sent again, whose answers change. */
  readonly refusals?: readonly Mutation[];
}

export function testControls({ commands = [], questions = [], content = [], refusals = [] }: Controls): void {
  jest.setTimeout(NOTICING_MS);

  const made: { bundleOf?: Awaited<ReturnType<typeof bundleMutants>> } = {};
  beforeAll(async () => {
    const all = [...commands, ...questions, ...content, ...refusals];
    made.bundleOf = await bundleMutants(all.map(({ change }) => change));
  });
  const bundleOf = (mutation?: Mutation): WorkflowBundle => {
    if (made.bundleOf === undefined) throw new Error('there is no bundle');
    return made.bundleOf(mutation?.change);
  };

  test('nobody notices anything where nothing is changed (INV-D1)', async () => {
    const bundle = bundleOf();
    const histories = new Set([...commands, ...questions, ...content, ...refusals].map(({ noticedIn }) => noticedIn));
    for (const history of histories) {
      expect(await replayFailures(bundle, history)).toEqual([]);
      expect(await differences(bundle, history)).toEqual([]);
    }
    for (const { noticedIn } of refusals) expect(await changedAnswers(bundle, noticedIn)).toEqual([]);
  });

  for (const [name, mutation] of named(commands))
    test(`Temporal notices: ${name} (INV-D1)`, async () => {
      const errors = await replayFailures(bundleOf(mutation), mutation.noticedIn);
      expect(errors.map((error) => error.name)).toEqual(['DeterminismViolationError']);
    });

  for (const [name, mutation] of named(questions))
    test(`the proof of an answer notices: ${name} (INV-D1)`, async () => {
      const errors = await replayFailures(bundleOf(mutation), mutation.noticedIn);
      expect(errors.map(({ message }) => message)).toEqual([
        expect.stringContaining('or this build asks something else'),
      ]);
    });

  for (const [name, mutation] of named(content))
    test(`the comparison notices, and Temporal does not: ${name} (INV-D1)`, async () => {
      const bundle = bundleOf(mutation);
      expect(await replayFailures(bundle, mutation.noticedIn)).toEqual([]);
      const messages = (await differences(bundle, mutation.noticedIn)).map(({ message }) => message);
      expect(messages).not.toEqual([]);
      // Where, and never what: values are prompts and arguments.
      for (const message of messages)
        expect(message).toMatch(
          /^Event \d+, [a-zA-Z -]+, differs at [\w./[\]]+: this code would do otherwise than the run has done\.$/,
        );
    });

  for (const [name, mutation] of named(refusals))
    test(`asking again notices, and no replay does: ${name} (INV-D1)`, async () => {
      const bundle = bundleOf(mutation);
      expect(await differences(bundle, mutation.noticedIn)).toEqual([]);
      expect(await changedAnswers(bundle, mutation.noticedIn)).not.toEqual([]);
    });
}
