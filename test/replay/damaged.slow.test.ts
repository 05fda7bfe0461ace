/**
 * Runs that queries have really damaged are told from a build that is at fault, and from a record that somebody changed
 * (INV-D1): at the points of `test/fault/query-rebuilds.test.ts`, in both forms, also where the damage is behind a
 * continue-as-new.
 */
import { readdirSync } from 'node:fs';
import { beforeAll, describe, expect, jest, test } from '@jest/globals';
import { brokenIn, type BrokenBy, isRecordInDoubt } from '../../cli/session/broken-ledger.ts';
import type { AnyEntry } from '../../contracts/schemas/ledger.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import type { WorkflowBundle } from '../../workers/bundle.ts';
import type { History } from '../../workers/replay/recorded-history.ts';
import { type Diagnosis, diagnosisOf } from '../../workers/replay/diagnosis.ts';
import { bundleForReading, type HistoryEvent, historyOf, soundnessOf } from '../../workers/replay/replayed-run.ts';
import { damagedRun, FOLDER } from '../support/faults/damaged-runs.ts';
import { sharedBundle } from '../support/shared-bundle.ts';
import { replaced } from './change.ts';
import { bundleMutant } from './mutant.ts';
import { CONFIG } from './corpus.ts';

const NAMES = readdirSync(FOLDER).flatMap((file) => (file.endsWith('.json') ? [file.replace('.json', '')] : []));
const [EVENT, TASK] = ['an-event-without-a-task', 'a-task-that-another-process-has-started'] as const;
jest.setTimeout(120_000);

let bundle: WorkflowBundle;

beforeAll(async () => {
  bundle = await sharedBundle(bundleForReading);
});

/** Undefined where it replays. */
async function diagnosed(workflowId: string, history: History, own = bundle): Promise<Diagnosis | undefined> {
  const options = { bundle: own, config: CONFIG };
  const soundness = await soundnessOf(workflowId, history, options);
  return soundness.kind === 'whole' ? undefined : await diagnosisOf(workflowId, history, soundness, options);
}

/** With one event changed. */
function edited(
  { events }: Pick<History, 'events'>,
  at: (event: HistoryEvent) => boolean,
  change: (event: HistoryEvent) => object,
): History {
  const index = events?.findLastIndex(at) ?? -1;
  if (index === -1) throw new Error('there is no such event');
  // Sound: the same event with another value in it.
  return historyOf((events ?? []).map((event, each) => (each === index ? (change(event) as HistoryEvent) : event)));
}

/** As somebody would who wants a call to have been tried otherwise. */
const withOtherQueue = (history: History): History =>
  edited(
    history,
    (event) => Boolean(event.activityTaskScheduledEventAttributes),
    (event) => ({
      ...event,
      activityTaskScheduledEventAttributes: {
        ...event.activityTaskScheduledEventAttributes,
        taskQueue: { name: 'another' },
      },
    }),
  );

test('each form stands here for runs and for catalogs, and before a continue-as-new', () => {
  expect(NAMES).toEqual(
    [EVENT, TASK]
      .flatMap((form) =>
        [
          'a-call-in-flight',
          'a-catalog-being-refreshed',
          'a-catalog-with-a-pending-loosening',
          'a-run-that-is-to-continue-as-new',
          'approval-asked-and-given-by-signal',
          'the-first-of-many-approvals-asked',
        ].map((point) => `${form}-${point}`),
      )
      .toSorted(),
  );
});

describe.each(NAMES)('%s', (name) => {
  test('what does not replay is shown to be damaged by a query', async () => {
    const { workflowId, histories, ledger } = await damagedRun(name);
    const found = [];
    for (const history of histories) found.push(await diagnosed(workflowId, history));
    const wrong = found.filter((each) => each !== undefined);
    expect(wrong.map(({ cause, certainty }) => ({ cause, certainty }))).toEqual(
      wrong.map(() => ({ cause: 'query', certainty: 'shown' })),
    );
    // One of a catalog that no later event tells of: it is seen in a ledger alone.
    expect(wrong.length > 0 || ledger !== undefined).toBe(true);
  });

  test('a copy of its ledger from then: a query, and not somebody', async () => {
    const { workflowId, histories, ledger } = await damagedRun(name);
    if (ledger === undefined) return;
    expect(isRecordInDoubt([{ kind: 'rewritten', seq: 0, reason: 'is so' }], ledger)).toBe(true);
    expect(await brokenIn(workflowId, { histories, isWhole: true }, ledger, { bundle, config: CONFIG })).toMatchObject({
      cause: 'query',
    });
  });
});

describe('not called damaged by a query', () => {
  const continued = async (form: string = EVENT) => {
    const { workflowId, histories } = await damagedRun(`${form}-a-run-that-is-to-continue-as-new`);
    const [first, next] = histories;
    if (first === undefined || next === undefined) throw new Error('it has not continued');
    return { workflowId, first, next };
  };

  test.each([EVENT, TASK])('a history that was edited, damaged before that (%s) or not', async (form) => {
    const { workflowId, first, next } = await continued(form);
    expect(await diagnosed(workflowId, next)).toBeUndefined();
    for (const history of [first, next]) {
      const { cause } = (await diagnosed(workflowId, withOtherQueue(history))) ?? {};
      expect(['build', 'unknown']).toContain(cause);
    }
  });

  test('a build that would do otherwise, damaged before that or not', async () => {
    const mutant = await bundleMutant(
      replaced(
        'roll',
        'const length = live.journal.ledgerLength;',
        'const length = live.journal.ledgerLength; await sleep(2);',
      ),
    );
    const { workflowId, first, next } = await continued();
    const diagnosis = await diagnosed(workflowId, first, mutant);
    expect(['build', 'unknown']).toContain(diagnosis?.cause);
    // What a closed execution would do on it explains no difference of the record.
    const options = { bundle: mutant, config: CONFIG };
    expect(
      await brokenIn(workflowId, { histories: [first, next], isWhole: true }, { copy: [], run: [] }, options),
    ).toMatchObject({ cause: 'unknown', text: expect.stringContaining('does not explain the difference') });
  });

  const causeOf = async (name: string, change: (copy: readonly AnyEntry[]) => readonly AnyEntry[], isWhole = true) => {
    const { workflowId, histories, ledger } = await damagedRun(name);
    if (ledger === undefined) throw new Error('there is no copy');
    const { run } = ledger;
    const options = { bundle, config: CONFIG };
    const broken: BrokenBy = await brokenIn(
      workflowId,
      { histories: isWhole ? histories : histories.slice(1), isWhole },
      { copy: change(ledger.copy), run },
      options,
    );
    return broken.cause;
  };
  /** With another fact in the first entry, and hashed anew from there. */
  const forged = (copy: readonly AnyEntry[]): readonly AnyEntry[] => {
    const entries: AnyEntry[] = [];
    for (const { hash: _, ...entry } of copy) {
      const fact = entries.length === 0 ? { ...entry.fact, forged: true } : entry.fact;
      const body = { ...entry, prev: entries.at(-1)?.hash ?? entry.prev, fact };
      entries.push({ ...body, hash: hashOf(body) });
    }
    return entries;
  };

  test('a copy that somebody changed: where nothing else is wrong, and where histories are gone', async () => {
    const refreshed = `${EVENT}-a-catalog-being-refreshed`;
    expect(await causeOf(refreshed, forged)).toBe('somebody');
    expect(await causeOf(refreshed, forged, false)).toBe('unknown');
  });
});
