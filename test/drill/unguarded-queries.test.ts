/**
 * The negative control of `test/fault/query-rebuilds.test.ts`, and what writes `test/replay/damaged`: without the guard
 * each run is damaged (INV-D1, docs/adr/0044). Played by hand, because its races are lost on a busy machine: `npm test
 * -- drill unguarded`.
 */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { type Form, FORMS, played, type Played, type Stage, startStage } from '../support/faults/asked-elsewhere.ts';
import { keepDamaged } from '../support/faults/damaged-runs.ts';
import { handedOver } from '../support/faults/rebuilt-points.ts';

jest.setTimeout(400_000);
/** A folder that is to have the damaged runs, for `test/replay/damaged`. */
const KEPT_IN = process.env['COUNTERSIGN_DAMAGED'];

let stage: Stage;

beforeAll(async () => {
  stage = await startStage();
});

afterAll(async () => {
  await stage?.close();
});

test.each(FORMS)(
  '%s: without the guard each query is answered, and runs are not what a replay makes of them',
  async (form) => {
    const seen = await played(stage, form, { guarded: false, ended: async (world, runs) => keep(form, world, runs) });
    expect([...seen.values()].some(({ refused }) => refused)).toBe(false);
    expect([...seen].filter(([, { different }]) => different === undefined)).toEqual([]);
  },
);

async function keep(form: Form, ...[world, runs]: Parameters<Played['ended']>): Promise<void> {
  if (KEPT_IN === undefined) return;
  // What the catalog has stored by now is told as it is from then on.
  const catalog = runs.get('a catalog being refreshed')?.workflowId ?? '';
  await world.client.workflow.getHandle(catalog).signal('nudge');
  await handedOver(world, catalog);
  for (const [name, { workflowId, told }] of runs) {
    const file = `${form} - ${name}.json`.replaceAll(/[ ,]+/g, '-');
    await keepDamaged(world, join(KEPT_IN, file), workflowId, told);
  }
}
